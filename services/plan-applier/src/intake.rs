//! What reaches the active applier: commands, and questions that it answers without a write. Only the active one
//! listens, and never in a queue group, where a stopped member would swallow its share (design §5).

use bus::{Bus, Request, Requests};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::command::{Command, RenewLease};
use wire::feed::{AskHead, Head};
use wire::senders::{may_renew, may_send};
use wire::{Role, Subject, Wire};

/// How many messages are read ahead of the loop that judges them.
const AHEAD: usize = 1024;

/// Something that was asked of the active applier.
#[derive(Debug)]
pub(crate) enum Ask {
    /// A command.
    Command(Request, Command),
    /// Where the head is.
    Head(Request),
    /// A singleton's holder is still there.
    Renew(Request, RenewLease),
}

/// Everything that is asked, in the order in which it came. Nobody listens any more once it is dropped.
pub(crate) struct Intake {
    asks: mpsc::Receiver<Ask>,
    _listening: DropGuard,
}

impl Intake {
    /// Begins to listen; `head` is what a probe is told.
    pub(crate) async fn open(bus: &Bus, head: Head) -> Result<Self, bus::Error> {
        let (sender, asks) = mpsc::channel(AHEAD);
        let listening = CancellationToken::new();
        let commands = bus.serve(Subject::EVERY_COMMAND).await?;
        forward(commands, may_send, Ask::Command, &sender, &listening);
        let renewals = bus.serve(Subject::EVERY_RENEWAL).await?;
        forward(renewals, may_renew, Ask::Renew, &sender, &listening);
        let heads = bus.serve(Subject::AskHead.to_string()).await?;
        let anybody = |_, _: &AskHead| Ok(());
        forward(heads, anybody, |request, AskHead {}| Ask::Head(request), &sender, &listening);
        answer_probes(bus.serve(Subject::Probe.to_string()).await?, head, listening.clone());
        Ok(Self { asks, _listening: listening.drop_guard() })
    }

    /// The next thing asked.
    pub(crate) async fn next(&mut self) -> Option<Ask> {
        self.asks.recv().await
    }

    /// The next thing asked, if it is there already.
    pub(crate) fn try_next(&mut self) -> Option<Ask> {
        self.asks.try_recv().ok()
    }
}

/// Reads bodies away from the loop that judges, and hands over what the sender's role may ask for.
fn forward<T: Wire + Send + Sync + 'static>(
    mut requests: Requests,
    may_ask: impl Fn(Option<Role>, &T) -> Result<(), &'static str> + Send + 'static,
    ask: impl Fn(Request, T) -> Ask + Send + 'static,
    sender: &mpsc::Sender<Ask>,
    listening: &CancellationToken,
) {
    let (sender, listening) = (sender.clone(), listening.clone());
    tokio::spawn(async move {
        while let Some(Some(request)) = listening.run_until_cancelled(requests.next()).await {
            let Some((request, body)) = request.read().await else { continue };
            if let Err(what) = may_ask(Subject::role_of(request.subject()), &body) {
                request.refuse_forbidden(what).await;
                continue;
            }
            if sender.send(ask(request, body)).await.is_err() {
                return;
            }
        }
    });
}

/// A probe only asks whether somebody is there; no promise hangs on the answer.
fn answer_probes(mut probes: Requests, head: Head, listening: CancellationToken) {
    tokio::spawn(async move {
        while let Some(Some(probe)) = listening.run_until_cancelled(probes.next()).await {
            probe.answer(&head).await;
        }
    });
}
