//! Commands reach an applier, even if it starts after the first attempt.

use std::time::Duration;

use bus::{Bus, Request, Requests};
use model::{Epoch, HistoryId, Index, JobKey, ProcessId, RequestId, Timestamp};
use wire::command::{Answer, Command, CommandError, Done, EvaluateJob};
use wire::envelope::COMMAND_BYTES_MAX;
use wire::feed::Head;
use wire::{Refusal, RefusalKind, Subject};

use crate::scene::{Scene, next, soon};

const WITHIN: Duration = Duration::from_secs(60);

fn command() -> Command {
    command_for("job")
}

fn command_for(job: &str) -> Command {
    Command::EvaluateJob(EvaluateJob { job: JobKey::new("default", job), force_reschedule: false })
}

fn done() -> Done {
    Done { index: Index(4), written: true, ..Done::default() }
}

async fn applier(bus: &Bus) -> Requests {
    bus.serve(Subject::EVERY_COMMAND).await.unwrap()
}

async fn answer_done(request: Request) -> RequestId {
    let id = request.id();
    let (request, found) = request.read::<Command>().await.unwrap();
    assert_eq!(found, command());
    request.answer(&Answer::Done(done())).await;
    id
}

#[tokio::test]
async fn an_applier_that_comes_late_is_found() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let id = bus.new_request_id();
    let command = command();
    let sending = bus.command_as(id, &command, WITHIN);
    let answering = async {
        // The first attempt is sent before an applier is subscribed.
        let mut applier = applier(&bus).await;
        answer_done(next(&mut applier).await).await
    };
    let (answer, found) = soon(async { tokio::join!(sending, answering) }).await;
    assert_eq!(answer.unwrap(), done());
    assert_eq!(found, id);
}

#[tokio::test]
async fn a_command_is_repeated_when_it_is_told_to() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let mut applier = applier(&bus).await;
    let command = command();
    let answering = async {
        let first = next(&mut applier).await;
        let id = first.id();
        first.answer(&Answer::Retry { reason: "the database is unavailable".into() }).await;
        assert_eq!(answer_done(next(&mut applier).await).await, id);
    };
    let (answer, ()) = soon(async { tokio::join!(bus.command(&command, WITHIN), answering) }).await;
    assert_eq!(answer.unwrap(), done());
}

#[tokio::test]
async fn a_refusal_is_the_end() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let mut applier = applier(&bus).await;
    let refusal = Refusal { kind: RefusalKind::NotFound, message: "job not found".into() };
    let command = command();
    let (answer, ()) = soon(async {
        tokio::join!(bus.command(&command, WITHIN), async {
            next(&mut applier).await.refuse(refusal.clone()).await
        })
    })
    .await;
    assert!(matches!(answer, Err(CommandError::Refused(found)) if found == refusal));
}

#[tokio::test]
async fn without_an_applier_the_time_runs_out() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let answer = soon(bus.command(&command(), Duration::from_millis(200))).await;
    let Err(CommandError::Unavailable { reason }) = answer else { panic!("{answer:?}") };
    assert_eq!(reason, "no process responds");
}

#[tokio::test]
async fn a_command_that_is_too_large_is_not_sent() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let answer = soon(bus.command(&command_for(&"x".repeat(COMMAND_BYTES_MAX)), WITHIN)).await;
    assert!(matches!(answer, Err(CommandError::TooLarge { max: COMMAND_BYTES_MAX, .. })), "{answer:?}");
}

#[tokio::test]
async fn a_new_applier_is_asked_as_soon_as_it_is_heard_of() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let mut applier = applier(&bus).await;
    let command = command();
    let answering = async {
        // The old applier dies before it responds.
        let lost = next(&mut applier).await.id();
        bus.contact().record_head(Head {
            history: HistoryId::from_bytes([1; 16]),
            index: Index(1),
            at: Timestamp::from_secs(1),
            epoch: Epoch(2),
            applier: ProcessId::from_bytes([2; 16]),
            began: None,
        });
        assert_eq!(answer_done(next(&mut applier).await).await, lost);
    };
    let (answer, ()) = soon(async { tokio::join!(bus.command(&command, WITHIN), answering) }).await;
    assert_eq!(answer.unwrap(), done());
}

#[tokio::test]
async fn a_command_outlives_a_restart_of_nats() {
    let mut scene = Scene::new().await;
    let (server, bus) = (scene.bus().await, scene.bus().await);
    let mut applier = applier(&server).await;
    let command = command();
    let answering = async {
        let id = next(&mut applier).await.id();
        scene.nats.kill9().await.unwrap();
        scene.nats.restart().await.unwrap();
        assert_eq!(answer_done(next(&mut applier).await).await, id);
    };
    let (answer, ()) = soon(async { tokio::join!(bus.command(&command, WITHIN), answering) }).await;
    assert_eq!(answer.unwrap(), done());
}
