//! W3C trace contexts. Objects of the state carry one, so that one trace covers the whole path from a request to a running
//! task.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A W3C trace context, stored with evaluations, deployments, allocations and change sets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

/// A text is not a `traceparent` of version 00.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a traceparent: expected 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, with ids that are not zero"
)]
pub struct InvalidTraceparent;

/// Length of the packed form in bytes.
const PACKED_LEN: usize = 16 + 8 + 1;

impl TraceContext {
    /// Creates the context of a span. Returns `None` if an id is zero, which the standard defines as invalid.
    pub fn new(trace_id: u128, span_id: u64, flags: u8) -> Option<Self> {
        let context = Self { trace_id, span_id, flags };
        context.is_valid().then_some(context)
    }

    /// Id of the trace.
    pub fn trace_id(self) -> u128 {
        self.trace_id
    }

    /// Id of the trace as text: 32 lower-case hex digits.
    pub fn trace_id_text(self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// Id of the span.
    pub fn span_id(self) -> u64 {
        self.span_id
    }

    /// The trace flags of the standard. The lowest bit is set if the trace is sampled.
    pub fn flags(self) -> u8 {
        self.flags
    }

    /// Whether both ids are valid, that is, not zero.
    fn is_valid(self) -> bool {
        self.trace_id != 0 && self.span_id != 0
    }

    fn to_bytes(self) -> [u8; PACKED_LEN] {
        let mut bytes = [self.flags; PACKED_LEN];
        bytes[..16].copy_from_slice(&self.trace_id.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.span_id.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (trace_id, rest) = bytes.split_first_chunk::<16>()?;
        let (span_id, rest) = rest.split_first_chunk::<8>()?;
        let [flags] = *rest else { return None };
        Self::new(u128::from_be_bytes(*trace_id), u64::from_be_bytes(*span_id), flags)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TraceContext {
    type Err = InvalidTraceparent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceparent> {
        let hex = |part: &str, digits: usize| {
            let plain =
                part.len() == digits && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            plain.then(|| u128::from_str_radix(part, 16).ok()).flatten().ok_or(InvalidTraceparent)
        };
        let parts: Vec<&str> = text.split('-').collect();
        let ["00", trace_id, span_id, flags] = parts[..] else { return Err(InvalidTraceparent) };
        Self::new(hex(trace_id, 32)?, hex(span_id, 16)? as u64, hex(flags, 2)? as u8)
            .ok_or(InvalidTraceparent)
    }
}

impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.to_bytes())
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::bytes::deserialize(deserializer, "a trace context of 25 bytes", |bytes| {
            Self::from_bytes(bytes).ok_or_else(|| format!("{} bytes are not a trace context", bytes.len()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_and_written_back() {
        let context: TraceContext = TEXT.parse().unwrap();
        assert_eq!(context.to_string(), TEXT);
        let bytes = rmp_serde::to_vec(&context).unwrap();
        assert_eq!(bytes.len(), PACKED_LEN + 2);
        assert_eq!(rmp_serde::from_slice::<TraceContext>(&bytes).unwrap(), context);
        assert_eq!(context.trace_id_text(), &TEXT[3..35]);
    }

    #[test]
    fn an_invalid_trace_context_is_refused() {
        for text in [
            "",
            "00",
            &TEXT.to_uppercase(),
            &TEXT[..54],
            &format!("{TEXT}-00"),
            &TEXT.replacen("00-", "01-", 1),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(text.parse::<TraceContext>(), Err(InvalidTraceparent), "{text}");
        }
    }
}
