//! What can be wrong with keys, tokens and files.

use crate::key::KeyKind;

/// Why an identity cannot be used or made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no seed, or one of another kind of key.
    #[error("this is no seed of {}: {problem}", .expected.described())]
    Seed {
        /// What was expected.
        expected: KeyKind,
        /// What is wrong, without the seed.
        problem: String,
    },
    /// It is no public key, or one of another kind of key.
    #[error("{text:?} is no public key of {}", .expected.described())]
    PublicKey {
        /// What was expected.
        expected: KeyKind,
        /// The text.
        text: String,
    },
    /// A file lacks a block between lines of dashes.
    #[error(
        "the file has no block {label:?} (a line of dashes with BEGIN {label}, the text, and a line with END)"
    )]
    NoBlock {
        /// What the block is called.
        label: &'static str,
    },
    /// A JWT cannot be read.
    #[error("this is no JWT of NATS: {problem}")]
    Token {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The JWT of one user with the seed of another.
    #[error("the JWT belongs to user {jwt} and the seed to user {seed}; both have to come from one file")]
    Mismatch {
        /// The user that the JWT names.
        jwt: String,
        /// The user that has the seed.
        seed: String,
    },
    /// A file of the directory is there and cannot be used.
    #[error("cannot use {path}")]
    File {
        /// Which, within the directory.
        path: String,
        /// What is wrong with it.
        #[source]
        source: Box<Error>,
    },
    /// A file that everything else follows from is missing.
    #[error("{path} is missing; `drover operator nats init` makes it")]
    Missing {
        /// Which, within the directory.
        path: String,
    },
    /// No service has credentials for this role.
    #[error("there are no credentials for the role {role}: {advice}")]
    Role {
        /// The role.
        role: wire::Role,
        /// What to do instead.
        advice: &'static str,
    },
}
