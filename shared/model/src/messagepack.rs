//! Decoding of MessagePack that comes from elsewhere.

use rmp_serde::Deserializer;
use rmp_serde::decode::Error;
use serde::Deserialize;

/// Maximum nesting of lists and maps in a message. Decoding is recursive. Jobs, which are nested deepest, are validated
/// to stay far below it.
pub const DEPTH_MAX: usize = 256;

/// Decodes a value.
///
/// # Errors
/// If the bytes do not begin with an encoded value, or it is nested too deep ([`DEPTH_MAX`]).
pub fn from_slice<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    let mut deserializer = Deserializer::from_read_ref(bytes);
    deserializer.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut deserializer)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use serde::de::IgnoredAny;
    use serde_json::Value;

    use super::*;

    /// The least stack of a thread that decodes messages: the default of the standard library and of Tokio.
    const STACK_BYTES: usize = 2 << 20;

    /// Lists of one item, so many within each other, around nothing.
    fn nested(levels: usize) -> Vec<u8> {
        let mut bytes = vec![0x91; levels];
        bytes.push(0xc0);
        bytes
    }

    #[test]
    fn deep_nesting_is_refused_before_the_stack_overflows() {
        let decode = || {
            assert!(from_slice::<Value>(&nested(DEPTH_MAX - 1)).is_ok());
            for levels in [DEPTH_MAX, 1_000, 1 << 20] {
                let error = from_slice::<Value>(&nested(levels)).unwrap_err();
                assert!(matches!(error, Error::DepthLimitExceeded), "{error}");
                assert!(from_slice::<IgnoredAny>(&nested(levels)).is_err());
            }
        };
        thread::Builder::new().stack_size(STACK_BYTES).spawn(decode).unwrap().join().unwrap();
    }
}
