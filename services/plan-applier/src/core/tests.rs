//! Commands, queries and outcomes of writes in sequence. The test plays the database.

use model::cluster::{NodePool, Singleton};
use model::eval::{EvalTrigger, Evaluation};
use model::job::JobType;
use model::plan::Outcome;
use model::{Epoch, EvalId, HistoryId, JobKey, ProcessId};
use wire::broker::SCHEDULER_VERSION;
use wire::command::{EvaluateJob, SetNodePool, SubmitPlan, TakeLease};

use super::*;

const WALL: Timestamp = Timestamp::from_secs(1_767_225_600);
const TIMEOUT: Duration = Duration::from_secs(60);

/// An applier of a new cluster. Senders are numbers.
struct Scene {
    applier: Applier<u8>,
    now: Instant,
}

impl Scene {
    fn new() -> Self {
        let head = Head {
            history: HistoryId::from_bytes([1; 16]),
            index: Index::ZERO,
            at: Timestamp::UNSET,
            epoch: Epoch(7),
            applier: ProcessId::from_bytes([1; 16]),
            began: None,
        };
        let now = telemetry::clock::monotonic();
        Self { applier: Applier::new(head, State::default(), RequestLog::default(), now), now }
    }

    /// Sends a command from `who` under an id made of a number.
    fn send(&mut self, who: u8, id: u8, command: Command) -> Received<u8> {
        let incoming = Incoming { id: RequestId::from_bytes([id; 16]), trace: None, command };
        self.applier.receive(incoming, 100, who, self.now + TIMEOUT)
    }

    fn judge(&mut self) {
        self.applier.judge(self.now, WALL);
    }

    fn next_write(&mut self) -> Option<Write> {
        self.applier.next_write(self.now)
    }

    fn written(&mut self, fate: WriteOutcome) -> Completion<u8> {
        self.applier.written(fate, self.now, WALL)
    }

    /// The replies after the write that is due has succeeded.
    fn replies(&mut self) -> Vec<(u8, Reply)> {
        self.judge();
        self.next_write().expect("a write is due");
        let Completion::Durable { answers, .. } = self.written(WriteOutcome::Done) else {
            panic!("the write succeeded")
        };
        answers
    }
}

/// A command that changes the state, unless another process holds the lease.
fn take(service: Singleton, process: u8) -> Command {
    Command::TakeLease(TakeLease { service, process: ProcessId::from_bytes([process; 16]), gone: None })
}

/// A command that is refused.
fn evaluate_nothing() -> Command {
    Command::EvaluateJob(EvaluateJob { job: JobKey::new("default", "nothing"), force_reschedule: false })
}

/// A command that always changes the state.
fn set_pool(number: u8) -> Command {
    let pool = NodePool { name: format!("pool-{number}").into(), ..NodePool::default() };
    Command::SetNodePool(Box::new(SetNodePool { pool }))
}

fn commit(write: Option<Write>) -> (Index, usize) {
    let Some(Write::Commit(from, rows)) = write else { panic!("{write:?}") };
    (from, rows.len())
}

fn is_retry(reply: &Reply) -> bool {
    matches!(reply, Reply::Answer(Answer::Retry { .. }))
}

#[test]
fn nothing_is_said_before_what_it_was_judged_on_is_durable() {
    let mut scene = Scene::new();
    scene.send(1, 1, take(Singleton::EvalBroker, 5));
    scene.judge();
    assert_eq!(commit(scene.next_write()), (Index::ZERO, 1));
    // This refusal depends on a lease that is not durable yet.
    scene.send(2, 2, take(Singleton::EvalBroker, 6));
    scene.judge();
    assert!(scene.next_write().is_none(), "one write at a time");
    let Completion::Durable { rows, sets, answers, .. } = scene.written(WriteOutcome::Done) else { panic!() };
    assert_eq!((rows.len(), sets.len()), (1, 1));
    assert!(matches!(answers[..], [(1, Reply::Answer(Answer::Done(_)))]), "{answers:?}");

    // A refusal is answered after a check of the epoch that began after it was judged.
    assert!(matches!(scene.next_write(), Some(Write::Confirm)));
    let Completion::Durable { rows, answers, .. } = scene.written(WriteOutcome::Done) else { panic!() };
    assert!(rows.is_empty());
    assert!(matches!(answers[..], [(2, Reply::Refuse(_))]), "{answers:?}");
}

#[test]
fn a_question_that_came_during_a_write_is_answered_with_the_next() {
    let mut scene = Scene::new();
    scene.applier.renew();
    assert!(matches!(scene.next_write(), Some(Write::Renew)));
    scene.applier.ask(Query::Head, 1, scene.now + TIMEOUT);
    let Completion::Durable { answers, .. } = scene.written(WriteOutcome::Done) else { panic!() };
    assert_eq!(answers, []);
    let head = Head { at: WALL, ..scene.applier.head };
    assert_eq!(scene.replies(), [(1, Reply::Head(head))]);
}

#[test]
fn repeats_join_the_first_or_get_its_answer() {
    let mut scene = Scene::new();
    let command = take(Singleton::EvalBroker, 5);
    scene.send(1, 1, command.clone());
    scene.send(2, 1, command.clone());
    scene.judge();
    scene.next_write();
    scene.send(3, 1, command.clone());
    let Completion::Durable { answers, .. } = scene.written(WriteOutcome::Done) else { panic!() };
    assert_eq!(answers.iter().map(|(who, _)| *who).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(matches!(scene.send(4, 1, command), Received::Committed(4, Index(1))));

    // Refusals are not in the request log: judging the command again is safe.
    scene.send(5, 2, evaluate_nothing());
    assert!(matches!(scene.replies()[..], [(5, Reply::Refuse(_))]));
    assert!(matches!(scene.send(6, 2, evaluate_nothing()), Received::Waits));
}

#[test]
fn a_failed_commit_takes_all_with_it_that_was_judged_on_it() {
    let mut scene = Scene::new();
    scene.send(1, 1, take(Singleton::EvalBroker, 5));
    scene.judge();
    scene.next_write();
    scene.send(2, 2, take(Singleton::EvalBroker, 6));
    scene.judge();
    scene.applier.ask(Query::Head, 3, scene.now + TIMEOUT);
    let Completion::Failed(answers) = scene.written(WriteOutcome::Failed) else { panic!() };
    assert_eq!(
        answers.iter().map(|(who, reply)| (*who, is_retry(reply))).collect::<Vec<_>>(),
        [(1, true), (2, true)]
    );
    assert!(scene.next_write().is_none(), "a retry waits");
    scene.now = scene.applier.poll_timeout().unwrap();

    // The lease is free, because its commit failed. The first sender repeats its command.
    scene.send(2, 2, take(Singleton::EvalBroker, 6));
    let answers = scene.replies();
    assert!(matches!(answers[..], [(2, Reply::Answer(Answer::Done(_))), (3, Reply::Head(_))]), "{answers:?}");
}

#[test]
fn an_unknown_outcome_is_found_out_before_anything_is_said() {
    for fate in [WriteOutcome::Done, WriteOutcome::Failed] {
        let mut scene = Scene::new();
        scene.send(1, 1, take(Singleton::EvalBroker, 5));
        scene.judge();
        let written = commit(scene.next_write());
        for _ in 0..2 {
            let Completion::Failed(answers) = scene.written(WriteOutcome::Unknown) else { panic!() };
            assert_eq!(answers, []);
            assert!(scene.applier.is_writing());
            scene.now = scene.applier.poll_timeout().unwrap();
            let Some(Write::ResolveCommit(from, rows)) = scene.next_write() else { panic!() };
            assert_eq!((from, rows.len()), written);
        }
        match scene.written(fate) {
            Completion::Durable { rows, answers, .. } => {
                assert_eq!((fate, rows.len(), answers.len()), (WriteOutcome::Done, 1, 1))
            }
            Completion::Failed(answers) => assert!(fate == WriteOutcome::Failed && is_retry(&answers[0].1)),
            Completion::Deposed | Completion::Lacks(_) => panic!("this is the only applier"),
        }
    }
}

#[test]
fn a_report_of_lost_writes_ends_writing() {
    let lost = |index, epoch| LostWrites {
        history: HistoryId::from_bytes([1; 16]),
        index: Index(index),
        epoch: Epoch(epoch),
        applier: ProcessId::from_bytes([9; 16]),
        request: None,
    };
    let mut scene = Scene::new();
    scene.applier.head.began = Some(Index(611));
    // What its predecessors committed before it took over is there, and another history proves nothing.
    scene.applier.report_loss(lost(611, 6));
    scene.applier.report_loss(LostWrites { history: HistoryId::from_bytes([2; 16]), ..lost(616, 6) });
    assert!(scene.next_write().is_none());

    // Whether this is still the active applier is found out before anything else is written.
    scene.send(1, 1, take(Singleton::EvalBroker, 5));
    scene.judge();
    scene.applier.report_loss(lost(616, 6));
    assert!(matches!(scene.next_write(), Some(Write::Confirm)));
    let Completion::Failed(_) = scene.written(WriteOutcome::Failed) else { panic!() };
    scene.now = scene.applier.poll_timeout().unwrap();
    assert!(matches!(scene.next_write(), Some(Write::Confirm)));
    let Completion::Lacks(found) = scene.written(WriteOutcome::Done) else { panic!() };
    assert_eq!(found, lost(616, 6));
    let rejected = scene.applier.reject_all();
    assert!(matches!(&rejected[..], [(1, reply)] if is_retry(reply)), "{rejected:?}");
}

#[test]
fn a_plan_that_was_made_from_another_log_is_refused() {
    let mut scene = Scene::new();
    scene.send(1, 1, take(Singleton::EvalBroker, 5));
    scene.replies();
    let (id, job) = (EvalId::from_bytes([1; 16]), JobKey::new("default", "job"));
    let eval = Evaluation::new(id, job, JobType::Service, 50, EvalTrigger::JobRegister);
    let mut submit = |snapshot_request| {
        let plan = Plan { snapshot_request, ..Plan::new(&eval, None, Index(1)) };
        let outcome = Outcome { eval: Box::new(eval.clone()), creates: Vec::new() };
        let submit = SubmitPlan { plan, outcome, scheduler_version: SCHEDULER_VERSION };
        scene.send(2, 2, Command::SubmitPlan(Box::new(submit)))
    };
    let other = RequestId(uuid::Builder::from_unix_timestamp_millis(1_767_225_600_000, &[7; 10]).into_uuid());
    let Received::Rejected(2, Reply::Refuse(refusal)) = submit(Some(other)) else { panic!() };
    assert_eq!(refusal.kind, RefusalKind::Conflict);
    assert!(matches!(submit(None), Received::Waits), "the sender does not tell");
}

#[test]
fn a_report_to_a_deposed_applier_proves_nothing() {
    let mut scene = Scene::new();
    scene.applier.head.began = Some(Index(611));
    let (history, applier) = (scene.applier.head.history, ProcessId::from_bytes([9; 16]));
    scene.applier.report_loss(LostWrites {
        history,
        index: Index(616),
        epoch: Epoch(8),
        applier,
        request: None,
    });
    assert!(matches!(scene.next_write(), Some(Write::Confirm)));
    assert!(matches!(scene.written(WriteOutcome::Deposed), Completion::Deposed));
}

#[test]
fn commands_without_a_waiting_sender_are_not_judged() {
    let mut scene = Scene::new();
    scene.send(1, 1, take(Singleton::EvalBroker, 5));
    scene.now += TIMEOUT;
    scene.judge();
    assert!(scene.next_write().is_none());
}

#[test]
fn waiting_senders_are_refused_when_the_applier_ends() {
    let mut scene = Scene::new();
    scene.send(1, 1, take(Singleton::EvalBroker, 5));
    scene.applier.ask(Query::Head, 2, scene.now + TIMEOUT);
    scene.judge();
    scene.next_write();
    scene.applier.ask(Query::Head, 3, scene.now + TIMEOUT);
    assert!(matches!(scene.written(WriteOutcome::Deposed), Completion::Deposed));
    let mut rejected = scene.applier.reject_all();
    rejected.sort_by_key(|(who, _)| *who);
    assert!(rejected.iter().all(|(_, reply)| is_retry(reply)));
    assert_eq!(rejected.iter().map(|(who, _)| *who).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn under_load_commits_are_some_time_apart_and_questions_do_not_wait() {
    let mut scene = Scene::new();
    let (mut number, mut commits_at_once) = (1, 0);
    loop {
        scene.send(1, number, set_pool(number));
        scene.judge();
        let Some(Write::Commit(..)) = scene.next_write() else { break };
        assert!(matches!(scene.written(WriteOutcome::Done), Completion::Durable { .. }));
        (number, commits_at_once) = (number + 1, commits_at_once + 1);
    }
    assert!(commits_at_once > 1);
    let due = scene.applier.poll_timeout().expect("judged commands wait");
    assert!(due > scene.now);

    scene.applier.ask(Query::Head, 2, scene.now + TIMEOUT);
    assert!(matches!(scene.next_write(), Some(Write::Confirm)));
    assert_eq!(scene.applier.poll_timeout(), None, "one write at a time");
    let Completion::Durable { rows, answers, .. } = scene.written(WriteOutcome::Done) else { panic!() };
    assert!(rows.is_empty() && matches!(answers[..], [(2, Reply::Head(_))]), "{answers:?}");

    // The waiting batch does not depend on a check that fails.
    scene.applier.ask(Query::Head, 2, scene.now + TIMEOUT);
    assert!(matches!(scene.next_write(), Some(Write::Confirm)));
    assert!(matches!(scene.written(WriteOutcome::Failed), Completion::Failed(answers) if answers.is_empty()));

    scene.send(3, number + 1, set_pool(number + 1));
    scene.judge();
    scene.now = due.max(scene.applier.poll_timeout().unwrap());
    let Some(Write::Commit(_, rows)) = scene.next_write() else { panic!("the commit is due") };
    assert_eq!(rows.len(), 2, "including the command that arrived meanwhile");
}
