//! Encoding of messages: the headers with kind, version and other metadata, and the conversion of bodies to bytes.

use std::cell::RefCell;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Header: the kind of the message ([`Wire::KIND`]).
pub const HEADER_KIND: &str = "Drover-Kind";
/// Header: the version of that kind ([`Wire::VERSION`]).
pub const HEADER_VERSION: &str = "Drover-Version";
/// Header: the request id, so that a repeat has no second effect.
pub const HEADER_REQUEST_ID: &str = "Drover-Request-Id";
/// Header: the time that the sender will still wait, in milliseconds. It is a duration, because clocks differ.
pub const HEADER_DEADLINE_MS: &str = "Drover-Deadline-Ms";
/// Header of an announced head: host, port and name of the database that the applier writes, for messages.
pub const HEADER_DATABASE: &str = "Drover-Database";
/// Header: the W3C trace context.
pub const HEADER_TRACE: &str = "traceparent";

/// Maximum size of a command's body, in bytes (`docs/architecture/commit-path.md`). NATS accepts it only if the server's `max_payload`, 1 MiB by
/// default, is raised. Servers for Drover have to be configured so.
pub const COMMAND_BYTES_MAX: usize = 8 << 20;
/// Maximum size of a change set in the feed, in bytes. For a larger one, the feed carries only its index, and replicas
/// read it from the log.
///
/// A plan of 10,000 placements makes a change set of 350 to 400 KB, which should still fit.
pub const CHANGE_SET_BYTES_MAX: usize = 512 << 10;
/// Maximum total size of the change sets in one [`Changes`](crate::feed::Changes), in bytes. A larger commit is split
/// over several messages. The limit leaves room for the headers within the default `max_payload` of NATS, 1 MiB.
pub const CHANGES_BYTES_MAX: usize = 768 << 10;
const _: () = assert!(CHANGE_SET_BYTES_MAX <= CHANGES_BYTES_MAX, "one change set must fit into one message");
/// Maximum total size of the allocations, jobs and shared data in one response to an agent, in bytes
/// ([`WorkAllocs`](crate::node::WorkAllocs)). The list of the node's allocations, some 30 bytes each, is not included.
pub const WORK_BYTES_MAX: usize = 512 << 10;
/// Maximum total size of the same data in a wake, in bytes ([`WorkChanges`](crate::node::News)). All nodes may be woken at
/// once, so agents fetch larger changes in their own time.
pub const NEWS_BYTES_MAX: usize = 64 << 10;

/// Maximum capacity of an encoding buffer that is kept for reuse.
const ENCODED_BYTES_MAX: usize = 256 << 10;

thread_local! {
    static ENCODED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A message body that has a kind and a version.
///
/// [`Self::write_to`] and [`Self::read_from`] have no default implementations, so that the code of each message is
/// compiled once, in the crate of the message. Default implementations would be compiled in every crate that uses them.
pub trait Wire: Serialize + DeserializeOwned {
    /// The kind of message, for instance `plan.submit`.
    const KIND: &'static str;
    /// Version of the encoding. It rises when the meaning of a field changes; adding a field needs no new version.
    const VERSION: u16 = 1;

    /// Appends the encoded body to `buffer`.
    ///
    /// # Errors
    /// If the body cannot be encoded.
    fn write_to(&self, buffer: &mut Vec<u8>) -> Result<(), rmp_serde::encode::Error>;

    /// Decodes a body of this version.
    ///
    /// # Errors
    /// If the body cannot be decoded.
    fn read_from(body: &[u8]) -> Result<Self, rmp_serde::decode::Error>;

    /// Decodes a body of this version. The result may share bytes with the message instead of copying them.
    ///
    /// # Errors
    /// If the body cannot be decoded.
    fn read(body: &Bytes) -> Result<Self, rmp_serde::decode::Error> {
        Self::read_from(body)
    }

    /// Decodes a body of an older version.
    ///
    /// # Errors
    /// If the version is not supported any more, or the body cannot be decoded.
    fn upgrade(version: u16, _body: &[u8]) -> Result<Self, DecodeError> {
        Err(DecodeError::Version { kind: Self::KIND, version, known: Self::VERSION })
    }
}

/// The reason why a message cannot be decoded. Such messages are counted and logged, and get a refusal if the sender
/// expects a response.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The message is of another kind than expected.
    #[error("message of kind {found:?} instead of {expected:?}")]
    Kind {
        /// The expected kind.
        expected: &'static str,
        /// The kind of the message.
        found: String,
    },
    /// This program does not support the version.
    #[error("{kind} of version {version}; this program reads up to version {known}")]
    Version {
        /// Kind of the message.
        kind: &'static str,
        /// Version of the message.
        version: u16,
        /// The newest version that is supported.
        known: u16,
    },
    /// The bytes are not a message of this kind.
    #[error("unreadable {kind}")]
    Body {
        /// Kind of the message.
        kind: &'static str,
        /// The decoding error.
        #[source]
        source: rmp_serde::decode::Error,
    },
}

/// Encodes a body.
pub fn encode<T: Wire>(body: &T) -> Vec<u8> {
    // A grown buffer is reused, unless it is so large that copying its contents costs more than growing another buffer.
    ENCODED.with_borrow_mut(|buffer| {
        buffer.clear();
        body.write_to(buffer).expect("plain data in memory always has a MessagePack form");
        if buffer.capacity() > ENCODED_BYTES_MAX { std::mem::take(buffer) } else { buffer.to_vec() }
    })
}

/// Decodes the body of a message with the kind and version in its headers.
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

/// Decodes a body of the given kind and version.
///
/// # Errors
/// If the kind is not `T`'s, the version is not supported, or the body cannot be decoded.
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
    T::read_from(body).map_err(|source| DecodeError::Body { kind: T::KIND, source })
}

/// Implements [`Wire`] for the bodies of a module: their kind, their version if it is not 1, and their decoding
/// function if it is not the default one. A body with a type parameter gets an implementation for every parameter that
/// can be encoded and decoded.
macro_rules! kinds {
    ($( $body:ident $(<$part:ident>)? => $kind:literal $(v $version:literal)? $(reads $read:ident)? ),+ $(,)?) => {
        #[cfg(test)]
        pub(crate) const KINDS: &[&str] = &[$($kind),+];

        $(
            impl $(<$part: serde::Serialize + serde::de::DeserializeOwned>)? $crate::Wire for $body $(<$part>)? {
                const KIND: &'static str = $kind;
                $( const VERSION: u16 = $version; )?

                fn write_to(&self, buffer: &mut Vec<u8>) -> Result<(), rmp_serde::encode::Error> {
                    rmp_serde::encode::write_named(buffer, self)
                }

                fn read_from(body: &[u8]) -> Result<Self, rmp_serde::decode::Error> {
                    model::messagepack::from_slice(body)
                }

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
    use crate::refusal::{Refusal, RefusalKind, decode_answer};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Greeting {
        text: String,
        #[serde(default)]
        loud: bool,
    }

    impl Wire for Greeting {
        const KIND: &'static str = "test.greeting";

        fn write_to(&self, buffer: &mut Vec<u8>) -> Result<(), rmp_serde::encode::Error> {
            rmp_serde::encode::write_named(buffer, self)
        }

        fn read_from(body: &[u8]) -> Result<Self, rmp_serde::decode::Error> {
            model::messagepack::from_slice(body)
        }
    }

    #[derive(Serialize)]
    struct NewerGreeting {
        text: String,
        language: String,
    }

    #[test]
    fn an_added_or_missing_field_is_tolerated() {
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
    fn decoding_errors_say_what_is_wrong() {
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
