//! [`Intake`]: receives the requests to the active applier: commands, and requests that need no write. Only the active
//! applier subscribes, and never in a queue group, in which a stopped member would swallow its share of the messages
//! (`docs/architecture/commit-path.md`).

use bus::{Bus, Request, Requests};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::command::{Command, RenewLease};
use wire::feed::{GetHead, Head, LostWrites};
use wire::senders::{may_renew, may_send};
use wire::{Role, Subject, Wire};

/// How many commands, and how many other requests, are decoded ahead of the loop that judges them. The queues of messages
/// limit their size.
pub(crate) const DECODED_AHEAD_MAX: usize = 1024;

/// A request to the active applier.
#[derive(Debug)]
pub(crate) enum IntakeRequest {
    /// A command.
    Command(Request, Command),
    /// A request for the head.
    Head(Request),
    /// The holder of a singleton's lease renews it.
    Renew(Request, RenewLease),
    /// A process has seen a change set that the log lacks.
    Lost(LostWrites),
}

/// All requests. Commands keep the order of their arrival. Other requests come before them, so that no flood of commands
/// delays the renewal of a lease. Dropping it ends the subscriptions.
pub(crate) struct Intake {
    commands: mpsc::Receiver<IntakeRequest>,
    queries: mpsc::Receiver<IntakeRequest>,
    _listening: DropGuard,
}

impl Intake {
    /// Subscribes. `head` is the answer to probes.
    pub(crate) async fn open(bus: &Bus, head: Head) -> Result<Self, bus::Error> {
        let (command_sender, command_receiver) = mpsc::channel(DECODED_AHEAD_MAX);
        let (query_sender, query_receiver) = mpsc::channel(DECODED_AHEAD_MAX);
        let listening = CancellationToken::new();
        let commands = bus.serve(Subject::EVERY_COMMAND).await?;
        forward(commands, may_send, IntakeRequest::Command, &command_sender, &listening);
        let renewals = bus.serve(Subject::EVERY_RENEWAL).await?;
        forward(renewals, may_renew, IntakeRequest::Renew, &query_sender, &listening);
        let heads = bus.serve(Subject::GetHead.to_string()).await?;
        let any_sender = |_, _: &GetHead| Ok(());
        let head_request = |request, GetHead {}| IntakeRequest::Head(request);
        forward(heads, any_sender, head_request, &query_sender, &listening);
        let reports = bus.serve(Subject::LostWrites.to_string()).await?;
        forward(reports, |_, _| Ok(()), |_, lost| IntakeRequest::Lost(lost), &query_sender, &listening);
        answer_probes(bus.serve(Subject::Probe.to_string()).await?, head, listening.clone());
        Ok(Self { commands: command_receiver, queries: query_receiver, _listening: listening.drop_guard() })
    }

    /// The next request.
    pub(crate) async fn next(&mut self) -> Option<IntakeRequest> {
        tokio::select! {
            biased;
            Some(query) = self.queries.recv() => Some(query),
            Some(command) = self.commands.recv() => Some(command),
            else => None,
        }
    }

    /// The next request, if one has arrived already.
    pub(crate) fn try_next(&mut self) -> Option<IntakeRequest> {
        self.queries.try_recv().or_else(|_| self.commands.try_recv()).ok()
    }
}

/// Decodes requests outside of the loop that judges, and forwards those that the sender's role may send.
fn forward<T: Wire + Send + Sync + 'static>(
    mut requests: Requests,
    may_send: impl Fn(Option<Role>, &T) -> Result<(), &'static str> + Send + 'static,
    wrap: impl Fn(Request, T) -> IntakeRequest + Send + 'static,
    sender: &mpsc::Sender<IntakeRequest>,
    listening: &CancellationToken,
) {
    let (sender, listening) = (sender.clone(), listening.clone());
    tokio::spawn(async move {
        while let Some(Some(request)) = listening.run_until_cancelled(requests.next()).await {
            let Some((request, body)) = request.read().await else { continue };
            if let Err(what) = may_send(Subject::role_of(request.subject()), &body) {
                request.refuse_forbidden(what).await;
                continue;
            }
            if sender.send(wrap(request, body)).await.is_err() {
                return;
            }
        }
    });
}

/// Answers probes, which ask whether an applier is active, and of which reign.
fn answer_probes(mut probes: Requests, head: Head, listening: CancellationToken) {
    tokio::spawn(async move {
        while let Some(Some(probe)) = listening.run_until_cancelled(probes.next()).await {
            probe.answer(&head).await;
        }
    });
}
