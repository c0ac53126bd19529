//! What services say to each other: every NATS subject there is, and every message.
//!
//! Nobody else spells a subject or a header. Messages are MessagePack maps, so that a field more or less is forgiven;
//! what a changed meaning needs is a new version, and an upgrade on the way in. A message says *look*; the index says
//! what is so. Connections, time-outs and the envelope's handling are `bus`'s business.

pub mod broker;
pub mod command;
pub mod envelope;
pub mod feed;
pub mod node;
pub mod subject;

pub use envelope::{DecodeError, Wire, decode, encode};
pub use subject::Subject;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::{broker, command, feed, node};

    #[test]
    fn no_two_messages_have_one_name() {
        let kinds = [broker::KINDS, command::KINDS, feed::KINDS, node::KINDS].concat();
        let distinct: BTreeSet<_> = kinds.iter().collect();
        assert_eq!(distinct.len(), kinds.len(), "{kinds:?}");
    }
}
