//! What an attack is, and what became of it.

use std::pin::Pin;

use tokio::task::JoinSet;

use crate::scene::Scene;
use crate::socket::{Answer, CLOSED, SILENT};

/// A line of the table.
#[derive(Clone, Copy)]
pub(crate) struct Attack {
    /// A name by which `ONLY=` selects it.
    pub(crate) name: &'static str,
    /// What the attacker does.
    pub(crate) does: &'static str,
    /// What the attacker must get.
    pub(crate) expected: &'static str,
    pub(crate) size: Size,
    /// Carries it out. The attacker has left when this ends.
    pub(crate) run: for<'a> fn(&'a mut Scene) -> Running<'a>,
}

/// How much of the machine an attack takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// Less than a second, also in an ordinary build: `make test` runs it.
    Quick,
    /// `make hostile` runs it.
    Full,
}

/// An attack that is being carried out.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// What became of an attack.
pub(crate) type Outcome = Result<(), Failure>;

/// Why an attack did not go as expected.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The attacker got something else.
    Fault(String),
    /// This machine does not permit the attack.
    NotPossible(String),
}

impl From<String> for Failure {
    fn from(fault: String) -> Self {
        Self::Fault(fault)
    }
}

/// Checks that an answer has one of these statuses.
pub(crate) fn expect(what: &str, answer: &Answer, statuses: &[u16]) -> Result<(), String> {
    ensure(statuses.contains(&answer.status), || {
        format!("{what}: {}; expected {statuses:?}", answer.summary())
    })
}

/// Checks that a request was refused: with an error, or because the connection was closed.
pub(crate) fn expect_refused(what: &str, answer: &Answer) -> Result<(), String> {
    let is_refused = answer.status >= 400 || answer.status == CLOSED;
    ensure(is_refused, || format!("{what}: {}; expected a refusal", answer.summary()))
}

/// Checks that a request was answered, whatever the answer.
pub(crate) fn expect_answered(what: &str, answer: &Answer) -> Result<(), String> {
    let is_answered = answer.status != SILENT && answer.status != CLOSED;
    ensure(is_answered, || format!("{what}: {}", answer.summary()))
}

/// Checks a condition. The error is what `text` returns.
pub(crate) fn ensure(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text()) }
}

/// Makes `count` attackers, which run at the same time, and waits for all. The results are in no particular order.
pub(crate) async fn at_once<T, F>(count: usize, make: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut attackers = JoinSet::new();
    for number in 0..count {
        attackers.spawn(make(number));
    }
    attackers.join_all().await
}
