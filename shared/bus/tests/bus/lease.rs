//! Leases: how they are granted, renewed and lost.

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, Request, Requests, lease};
use model::change::Change;
use model::cluster::{Lease, Singleton};
use model::{Epoch, HistoryId, Index, ProcessId, Timestamp};
use state::{Replica, State};
use wire::command::{Answer, Command, Done, LEASE, RenewLease, TakeLease};
use wire::feed::Head;
use wire::{Refusal, RefusalKind, Role, Subject};

use crate::feed::{decode, encode};
use crate::scene::{Scene, next, soon};

const SERVICE: Singleton = Singleton::EvalBroker;
const PROCESS: ProcessId = ProcessId::from_bytes([5; 16]);
const EPOCH: Epoch = Epoch(7);

struct Applier {
    commands: Requests,
    renewals: Requests,
}

impl Applier {
    async fn new(bus: &Bus) -> Self {
        announce(bus, 0);
        Self {
            commands: bus.serve(Subject::EVERY_COMMAND).await.unwrap(),
            renewals: bus.serve(Subject::EVERY_RENEWAL).await.unwrap(),
        }
    }

    async fn take_request(&mut self) -> Request {
        let (request, command) = next(&mut self.commands).await.read::<Command>().await.unwrap();
        assert_eq!(command, Command::TakeLease(TakeLease { service: SERVICE, process: PROCESS, gone: None }));
        request
    }

    async fn renewal(&mut self) -> Request {
        let (request, renewal) = next(&mut self.renewals).await.read::<RenewLease>().await.unwrap();
        assert_eq!(renewal, RenewLease { service: SERVICE, process: PROCESS, epoch: EPOCH });
        request
    }

    /// Grants the lease to a process that waits for it.
    async fn grant(&mut self, bus: &Bus) -> lease::Lease {
        let granting = async { grant(self.take_request().await).await };
        let replica = Replica::new(State::default());
        let holding = lease::hold(bus, &replica, SERVICE, PROCESS);
        let (lease, ()) = soon(async { tokio::join!(holding, granting) }).await;
        assert_eq!(lease.epoch, EPOCH);
        lease
    }
}

/// Plays the announcement of an applier.
fn announce(bus: &Bus, epoch: u64) {
    bus.contact().record_head(Head {
        history: HistoryId::from_bytes([1; 16]),
        index: Index(1),
        at: Timestamp::from_secs(1),
        epoch: Epoch(epoch),
        applier: ProcessId::from_bytes([2; 16]),
        began: None,
    });
}

async fn grant(request: Request) {
    request.answer(&Answer::Done(Done { epoch: Some(EPOCH), ..Done::default() })).await;
}

fn refusal(kind: RefusalKind) -> Refusal {
    Refusal { kind, message: "another process holds the lease".into() }
}

async fn is_lost(lease: &lease::Lease) -> bool {
    tokio::time::timeout(Duration::ZERO, lease.lost()).await.is_ok()
}

#[tokio::test]
async fn a_lease_that_another_holds_is_waited_for() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let mut applier = Applier::new(&bus).await;
    let answering = async {
        applier.take_request().await.refuse(refusal(RefusalKind::Conflict)).await;
        grant(applier.take_request().await).await;
    };
    let replica = Replica::new(State::default());
    let holding = lease::hold(&bus, &replica, SERVICE, PROCESS);
    let (lease, ()) = soon(async { tokio::join!(holding, answering) }).await;
    assert_eq!(lease.epoch, EPOCH);
}

#[tokio::test]
async fn an_unreachable_holder_is_reported_as_gone() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let mut applier = Applier::new(&bus).await;
    let holder = ProcessId::from_bytes([6; 16]);
    let held = Change::Lease(Lease { service: SERVICE, holder, epoch: Epoch(6), modify_index: Index(1) });
    let replica = Replica::new(State::default());
    replica.apply(vec![Arc::new(decode(&encode(1, 0, vec![held])))]).unwrap();
    let answering = async {
        applier.take_request().await.refuse(refusal(RefusalKind::Conflict)).await;
        let (request, command) = next(&mut applier.commands).await.read::<Command>().await.unwrap();
        let gone = Some(Epoch(6));
        assert_eq!(command, Command::TakeLease(TakeLease { service: SERVICE, process: PROCESS, gone }));
        grant(request).await;
    };
    let holding = lease::hold(&bus, &replica, SERVICE, PROCESS);
    let (lease, ()) = soon(async { tokio::join!(holding, answering) }).await;
    assert_eq!(lease.epoch, EPOCH);
}

#[tokio::test]
async fn a_lease_lasts_for_as_long_as_it_is_renewed() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let mut applier = Applier::new(&bus).await;
    let begin = tokio::time::Instant::now();
    let lease = applier.grant(&bus).await;
    while begin.elapsed() < LEASE + LEASE / 2 {
        grant(applier.renewal().await).await;
        assert!(!is_lost(&lease).await);
    }
    applier.renewal().await.refuse(refusal(RefusalKind::Deposed)).await;
    soon(lease.lost()).await;
}

#[tokio::test]
async fn a_lease_is_lost_when_no_applier_answers() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let mut applier = Applier::new(&bus).await;
    let begin = tokio::time::Instant::now();
    let lease = applier.grant(&bus).await;
    drop(applier);
    soon(lease.lost()).await;
    assert!(begin.elapsed() >= LEASE);
}

#[tokio::test]
async fn a_new_applier_is_told_who_holds_the_lease() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let mut applier = Applier::new(&bus).await;
    let lease = applier.grant(&bus).await;
    grant(applier.renewal().await).await;
    // A renewal is due in a third of the lease's duration; hundreds in that time are not.
    for epoch in 1..=100 {
        announce(&bus, epoch);
        grant(applier.renewal().await).await;
    }
    assert!(!is_lost(&lease).await);
}

/// An applier on a thread of its own, which grants and renews leases.
async fn willing_applier(scene: &Scene) {
    let args = scene.args(Role::Observer);
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bus = Bus::connect(&args, Role::Observer).await.unwrap();
            let mut applier = Applier::new(&bus).await;
            ready.send(()).unwrap();
            loop {
                let request = tokio::select! {
                    request = applier.commands.next() => request,
                    request = applier.renewals.next() => request,
                };
                match request {
                    Some(request) => grant(request).await,
                    None => return,
                }
            }
        });
    });
    is_ready.await.unwrap();
}

/// A process that computes, or is flooded with messages, for longer than a lease lasts.
#[tokio::test]
async fn a_process_that_is_busy_keeps_its_lease() {
    let scene = Scene::new().await;
    willing_applier(&scene).await;
    let bus = scene.bus().await;
    announce(&bus, 0);
    let replica = Replica::new(State::default());
    let lease = soon(lease::hold(&bus, &replica, SERVICE, PROCESS)).await;
    std::thread::sleep(LEASE + LEASE / 2);
    assert!(!is_lost(&lease).await);
}

#[tokio::test]
async fn a_lease_that_is_dropped_is_not_renewed() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let mut applier = Applier::new(&bus).await;
    drop(applier.grant(&bus).await);
    let renewal = tokio::time::timeout(LEASE / 2, applier.renewals.next()).await;
    assert!(renewal.is_err(), "its holder was dropped");
}
