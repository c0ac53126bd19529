//! Errors in keys, tokens and files.

use crate::key_kind::KeyKind;

/// The reason why an identity cannot be used or created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not a seed, or the seed of another kind of key.
    #[error("this is not the seed of {}: {problem}", .expected.description())]
    Seed {
        /// The expected kind of key.
        expected: KeyKind,
        /// Description of the problem, without the seed.
        problem: String,
    },
    /// The text is not a public key, or the public key of another kind of key.
    #[error("{text:?} is not the public key of {}", .expected.description())]
    PublicKey {
        /// The expected kind of key.
        expected: KeyKind,
        /// The text.
        text: String,
    },
    /// A file does not contain an expected block.
    #[error(
        "the file has no block {label:?} (a line of dashes with BEGIN {label}, the text, and a line with END)"
    )]
    NoBlock {
        /// Label of the block.
        label: &'static str,
    },
    /// The text is not a valid JWT.
    #[error("this is not a NATS JWT: {problem}")]
    Token {
        /// Description of the problem.
        problem: &'static str,
    },
    /// The JWT and the seed belong to different users.
    #[error("the JWT belongs to user {jwt} and the seed to user {seed}; both must come from the same file")]
    Mismatch {
        /// The user in the JWT.
        jwt: String,
        /// The user of the seed.
        seed: String,
    },
    /// A file of the directory exists, but cannot be used.
    #[error("cannot use {path}")]
    File {
        /// Path within the directory.
        path: String,
        /// The problem with the file.
        #[source]
        source: Box<Error>,
    },
    /// A required file is missing.
    #[error("{path} is missing; `drover operator nats init` creates it")]
    Missing {
        /// Path within the directory.
        path: String,
    },
    /// There are no credentials for this role.
    #[error("there are no credentials for the role {role}: {advice}")]
    Role {
        /// The role.
        role: wire::Role,
        /// The replacement to use.
        advice: &'static str,
    },
}
