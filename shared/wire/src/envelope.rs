//! What surrounds a body: kind, version and the rest in headers; and how bodies become bytes.

use std::cell::RefCell;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::refusal::Refusal;

/// Header: which kind of message the body is ([`Wire::KIND`]).
pub const HEADER_KIND: &str = "Drover-Kind";
/// Header: which version of that kind ([`Wire::VERSION`]).
pub const HEADER_VERSION: &str = "Drover-Version";
/// Header: the request's id, so that a repeat has no second effect.
pub const HEADER_REQUEST_ID: &str = "Drover-Request-Id";
/// Header: milliseconds that the sender is still prepared to wait. A remaining time, because clocks differ.
pub const HEADER_DEADLINE_MS: &str = "Drover-Deadline-Ms";
/// Header: the W3C trace context.
pub const HEADER_TRACE: &str = "traceparent";

/// The largest body of a command, in bytes (design §4). NATS takes it only where the server's `max_payload`, by default
/// 1 MiB, is raised: whoever starts a server for Drover has to.
pub const COMMAND_BYTES_MAX: usize = 8 << 20;
/// The largest change set that the feed carries, in bytes; larger ones are announced and read from the log.
///
/// A plan of 10,000 placements makes 350 to 400 KB, and should not take the way over the table.
pub const CHANGE_SET_BYTES_MAX: usize = 512 << 10;
/// The most change sets, by their bytes, that one [`Changes`](crate::feed::Changes) carries; those of a larger commit
/// are split over several. Leaves room for the envelope within NATS' default payload of 1 MiB.
pub const CHANGES_BYTES_MAX: usize = 768 << 10;
const _: () = assert!(CHANGE_SET_BYTES_MAX <= CHANGES_BYTES_MAX, "one change set fits one message");
/// The most of allocations, jobs and common shares that one answer to an agent carries, in bytes
/// ([`WorkAllocs`](crate::node::WorkAllocs)). The list of a node's allocations, some 30 bytes each, comes on top.
pub const WORK_BYTES_MAX: usize = 512 << 10;
/// The most of the same that comes along with a wake ([`News`](crate::node::News)): all nodes may be woken at once, so
/// what is larger is fetched by each in its time.
pub const NEWS_BYTES_MAX: usize = 64 << 10;

/// How large a buffer for encoding may be and still be kept.
const ENCODED_BYTES_MAX: usize = 256 << 10;

thread_local! {
    static ENCODED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A body that has a name and a version.
pub trait Wire: Serialize + DeserializeOwned {
    /// What the body is, for instance `plan.submit`.
    const KIND: &'static str;
    /// Rises when the meaning of a field changes; a field that is only added needs no new version.
    const VERSION: u16 = 1;

    /// Reads a body of this version, which may share bytes with the message instead of copying them.
    ///
    /// # Errors
    /// If the body is not what it should be.
    fn read(body: &Bytes) -> Result<Self, rmp_serde::decode::Error> {
        rmp_serde::from_slice(body)
    }

    /// Reads a body of an older version.
    ///
    /// # Errors
    /// If the version is not one that is still read, or the body is not what it should be.
    fn upgrade(version: u16, _body: &[u8]) -> Result<Self, DecodeError> {
        Err(DecodeError::Version { kind: Self::KIND, version, known: Self::VERSION })
    }
}

/// Why a message cannot be read. It is counted, logged, and answered where somebody waits.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Another kind of message than expected here.
    #[error("message of kind {found:?} instead of {expected:?}")]
    Kind {
        /// What was expected.
        expected: &'static str,
        /// What came.
        found: String,
    },
    /// A version that this program does not read.
    #[error("{kind} of version {version}; this program reads up to version {known}")]
    Version {
        /// The kind of message.
        kind: &'static str,
        /// The version that came.
        version: u16,
        /// The newest version that is read.
        known: u16,
    },
    /// Bytes that are not such a message.
    #[error("unreadable {kind}")]
    Body {
        /// The kind of message.
        kind: &'static str,
        /// Where it went wrong.
        #[source]
        source: rmp_serde::decode::Error,
    },
}

/// The body's bytes.
pub fn encode<T: Wire>(body: &T) -> Vec<u8> {
    // A buffer that grew once is used again, unless it is so large that to copy its contents costs more than to grow another.
    ENCODED.with_borrow_mut(|buffer| {
        buffer.clear();
        rmp_serde::encode::write_named(buffer, body)
            .expect("plain data in memory always has a MessagePack form");
        if buffer.capacity() > ENCODED_BYTES_MAX { std::mem::take(buffer) } else { buffer.to_vec() }
    })
}

/// Reads the body of a message, whose header names its kind and version.
///
/// # Errors
/// As [`decode`].
pub fn decode_message<T: Wire>(kind: &str, version: u16, body: &Bytes) -> Result<T, DecodeError> {
    if kind == T::KIND && version == T::VERSION {
        T::read(body).map_err(|source| DecodeError::Body { kind: T::KIND, source })
    } else {
        decode(kind, version, body)
    }
}

/// Reads a body whose kind and version are known.
///
/// # Errors
/// If it is another kind, a version that is not read, or no such message at all.
pub fn decode<T: Wire>(kind: &str, version: u16, body: &[u8]) -> Result<T, DecodeError> {
    if kind != T::KIND {
        return Err(DecodeError::Kind { expected: T::KIND, found: kind.to_owned() });
    }
    if version > T::VERSION {
        return Err(DecodeError::Version { kind: T::KIND, version, known: T::VERSION });
    }
    if version < T::VERSION {
        return T::upgrade(version, body);
    }
    rmp_serde::from_slice(body).map_err(|source| DecodeError::Body { kind: T::KIND, source })
}

/// Reads the answer to a request: its own, or a refusal.
///
/// # Errors
/// If it is neither, or cannot be read ([`decode`]).
pub fn decode_answer<T: Wire>(
    kind: &str,
    version: u16,
    body: &[u8],
) -> Result<Result<T, Refusal>, DecodeError> {
    if kind == Refusal::KIND {
        decode(kind, version, body).map(Err)
    } else {
        decode(kind, version, body).map(Ok)
    }
}

/// Gives a module's bodies their names and, where it is not 1, their version, and how they are read where it is not as usual.
/// Those with a parameter have it for all of which it can be read and written.
macro_rules! kinds {
    ($( $body:ident $(<$part:ident>)? => $kind:literal $(v $version:literal)? $(reads $read:ident)? ),+ $(,)?) => {
        #[cfg(test)]
        pub(crate) const KINDS: &[&str] = &[$($kind),+];

        $(
            impl $(<$part: serde::Serialize + serde::de::DeserializeOwned>)? $crate::Wire for $body $(<$part>)? {
                const KIND: &'static str = $kind;
                $( const VERSION: u16 = $version; )?
                $(
                    fn read(body: &bytes::Bytes) -> Result<Self, rmp_serde::decode::Error> {
                        $read(body)
                    }
                )?
            }
        )+
    };
}
pub(crate) use kinds;

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::refusal::RefusalKind;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Greeting {
        text: String,
        #[serde(default)]
        loud: bool,
    }

    impl Wire for Greeting {
        const KIND: &'static str = "test.greeting";
    }

    #[derive(Serialize)]
    struct NewerGreeting {
        text: String,
        language: String,
    }

    #[test]
    fn a_field_more_or_less_is_forgiven() {
        let newer = NewerGreeting { text: "hello".into(), language: "en".into() };
        let bytes = rmp_serde::to_vec_named(&newer).unwrap();
        let read: Greeting = decode(Greeting::KIND, 1, &bytes).unwrap();
        assert_eq!(read, Greeting { text: "hello".into(), loud: false });
    }

    #[test]
    fn an_answer_is_what_was_asked_for_or_a_refusal() {
        let greeting = Greeting { text: "hello".into(), loud: true };
        let answer = decode_answer::<Greeting>(Greeting::KIND, 1, &encode(&greeting)).unwrap();
        assert_eq!(answer, Ok(greeting));

        let refusal = Refusal { kind: RefusalKind::NotFound, message: "node not found".into() };
        let answer = decode_answer::<Greeting>(Refusal::KIND, 1, &encode(&refusal)).unwrap();
        assert_eq!(answer, Err(refusal));

        let error = decode_answer::<Greeting>("test.other", 1, &[]).unwrap_err();
        assert!(matches!(error, DecodeError::Kind { expected: Greeting::KIND, .. }), "{error}");
        let error = decode_answer::<Greeting>(Refusal::KIND, 2, &[]).unwrap_err();
        assert!(matches!(error, DecodeError::Version { kind: Refusal::KIND, .. }), "{error}");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let body = encode(&Greeting { text: "hello".into(), loud: true });
        let error =
            |kind, version, body: &[u8]| decode::<Greeting>(kind, version, body).unwrap_err().to_string();
        assert_eq!(
            error("test.other", 1, &body),
            r#"message of kind "test.other" instead of "test.greeting""#
        );
        assert_eq!(
            error(Greeting::KIND, 2, &body),
            "test.greeting of version 2; this program reads up to version 1"
        );
        assert_eq!(
            error(Greeting::KIND, 0, &body),
            "test.greeting of version 0; this program reads up to version 1"
        );
        assert_eq!(error(Greeting::KIND, 1, &body[..3]), "unreadable test.greeting");
    }
}
