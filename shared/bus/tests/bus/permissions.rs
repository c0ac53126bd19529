//! A process knows the subjects that NATS refuses to it, whether it sends requests or not.

use std::time::Duration;

use bus::{Bus, RequestError};
use model::ProcessId;
use tokio_util::sync::CancellationToken;
use wire::feed::{GetHead, Head};
use wire::metrics::ProcessInfo;
use wire::{Role, Subject};

use crate::scene::{Scene, soon};

const WITHIN: Duration = Duration::from_secs(30);

/// Connects a process of `role` with the credentials of a role.
async fn connect(scene: &Scene, role: Role, credentials: Role) -> Bus {
    soon(Bus::connect(&scene.args(credentials), role)).await.unwrap()
}

#[tokio::test]
async fn a_process_with_another_roles_credentials_knows_it() {
    let scene = Scene::new().await;
    let bus = connect(&scene, Role::Api, Role::Scheduler).await;
    let refused = soon(async {
        loop {
            match bus.refused() {
                Some(refused) => return refused,
                None => tokio::task::yield_now().await,
            }
        }
    });
    let refused = refused.await;
    assert!(refused.contains("to subscribe to inbox.api."), "{refused}");

    // Its metrics, which NATS refuses as well, are still known to the process itself.
    let mut own = bus.own_metrics();
    let (process, stop) = (ProcessId::from_bytes([3; 16]), CancellationToken::new());
    let publish = bus::metrics::publish(bus.clone(), Role::Api, process, ProcessInfo::default, stop.clone());
    let publishing = tokio::spawn(publish);
    soon(own.changed()).await.unwrap();
    let metrics = own.borrow().clone().unwrap();
    let counted = bus::metrics::series(&metrics).unwrap();
    assert!(counted.iter().any(|series| series.meta.name == "drover.bus.permission_violations"));
    stop.cancel();
    soon(publishing).await.unwrap();
}

#[tokio::test]
async fn a_process_with_its_own_credentials_is_refused_nothing() {
    let scene = Scene::new().await;
    for role in Role::SERVICES {
        let bus = connect(&scene, role, role).await;
        // NATS answers in order, so a refusal of the inbox would have arrived before.
        let answer = soon(bus.request::<_, Head>(Subject::Command(role), &GetHead {}, WITHIN)).await;
        assert!(matches!(answer, Err(RequestError::NoResponders)), "{role}: {answer:?}");
        assert_eq!(bus.refused(), None, "{role}");
    }
}
