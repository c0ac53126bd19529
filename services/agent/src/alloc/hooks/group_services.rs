//! Registers the services of the group before its tasks start, and withdraws them before the tasks end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::{AllocHook, AllocRun, AllocSetup, HookError};
use crate::networks::AllocNetwork;
use crate::services::Registering;
use crate::services::desired::Owner;
use crate::task::advertised;

/// The hook.
#[derive(Default)]
pub(super) struct GroupServices {
    /// The allocation's network, once it is set up.
    network: Mutex<Option<Arc<AllocNetwork>>>,
    /// Whether the allocation is ending, so that nothing is registered any more.
    is_ending: AtomicBool,
}

impl GroupServices {
    /// Registers the services as the job describes them now.
    fn register(&self, alloc: &AllocRun) -> Result<(), HookError> {
        if self.is_ending.load(Ordering::Relaxed) {
            return Ok(());
        }
        let group = alloc.group()?;
        let services = &alloc.context.services;
        // Also without services: an earlier version of the job may have had some.
        services.track(alloc.spec.id());
        let network = self.network.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let found = advertised::of_group(&alloc.spec, &alloc.context.node, network.as_deref())
            .map_err(HookError::unrecoverable)?;
        let registering = Registering {
            alloc: alloc.spec.id(),
            owner: Owner::Group,
            name: &group.name,
            is_canary: alloc.spec.work.canary,
            services: &found,
        };
        services.register(&registering).map_err(HookError::unrecoverable)
    }
}

#[async_trait]
impl AllocHook for GroupServices {
    fn name(&self) -> &'static str {
        "group_services"
    }

    async fn prerun(&self, alloc: &AllocRun, setup: &mut AllocSetup) -> Result<(), HookError> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&setup.network);
        self.register(alloc)
    }

    async fn update(&self, alloc: &AllocRun) -> Result<(), HookError> {
        self.register(alloc)
    }

    async fn pre_kill(&self, alloc: &AllocRun) {
        self.is_ending.store(true, Ordering::Relaxed);
        alloc.context.services.withdraw(alloc.spec.id(), Owner::Group).await;
    }

    async fn postrun(&self, alloc: &AllocRun) -> Result<(), HookError> {
        self.is_ending.store(true, Ordering::Relaxed);
        let services = &alloc.context.services;
        services.ended(alloc.spec.id(), &Owner::Group);
        services.untrack(alloc.spec.id());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::alloc::{AllocCommon, PortMapping};
    use model::job::{JobType, Service, ServiceProvider, TaskGroup};
    use tokio::sync::watch;

    use super::*;
    use crate::testing::{context, task, with_group};
    use crate::work::spec::AllocSpec;

    /// An allocation whose group registers a service at a port.
    fn alloc(dir: &std::path::Path, port_label: &str) -> AllocRun {
        let service = Service {
            name: "web".into(),
            port_label: port_label.into(),
            tags: vec!["live".into()],
            canary_tags: vec!["canary".into()],
            provider: Some(ServiceProvider::Nomad),
            ..Service::default()
        };
        let group = TaskGroup {
            name: "app".into(),
            tasks: vec![task("web")],
            services: vec![service],
            ..TaskGroup::default()
        };
        let mut spec = with_group(JobType::Service, group);
        let mut common = AllocCommon::clone(&spec.common);
        let port = PortMapping {
            label: "http".into(),
            value: 21_000,
            host_ip: "10.0.0.1".into(),
            ..PortMapping::default()
        };
        common.resources.ports = vec![port];
        spec.common = Arc::new(common);
        AllocRun { context: context(dir, watch::channel(true).1), spec: Arc::new(spec) }
    }

    /// What is to be registered: id, address, port and tags.
    fn wanted(alloc: &AllocRun) -> Vec<(String, String, u16, Vec<String>)> {
        let desired = alloc.context.services.cluster.desired();
        let registrations = desired.accepted().map(|(_, service)| {
            let tags = service.tags.iter().map(ToString::to_string).collect();
            (service.id.to_string(), service.address.to_string(), service.port, tags)
        });
        registrations.collect()
    }

    //
    #[tokio::test]
    async fn services_are_there_from_the_setup_until_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut alloc = alloc(dir.path(), "http");
        let hook = GroupServices::default();
        let mut canary = AllocSpec::clone(&alloc.spec);
        canary.work.canary = true;
        let promoted = std::mem::replace(&mut alloc.spec, Arc::new(canary));
        hook.prerun(&alloc, &mut AllocSetup::default()).await.unwrap();
        let id = "_nomad-task-01010101-0101-0101-0101-010101010101-group-app-web-http".to_owned();
        let with_tag = |tag: &str| vec![(id.clone(), "10.0.0.1".to_owned(), 21_000, vec![tag.to_owned()])];
        assert_eq!(wanted(&alloc), with_tag("canary"));
        alloc.spec = promoted;
        hook.update(&alloc).await.unwrap();
        assert_eq!(wanted(&alloc), with_tag("live"));
        hook.pre_kill(&alloc).await;
        assert_eq!(wanted(&alloc), []);
        hook.update(&alloc).await.unwrap();
        assert_eq!(wanted(&alloc), [], "a change while it ends registers nothing");
        hook.postrun(&alloc).await.unwrap();
    }

    #[tokio::test]
    async fn a_port_that_is_not_there_fails_the_setup() {
        let dir = tempfile::tempdir().unwrap();
        let alloc = alloc(dir.path(), "nope");
        let error = GroupServices::default().prerun(&alloc, &mut AllocSetup::default()).await.unwrap_err();
        assert!(
            error.message.starts_with("service \"web\" of the group: port \"nope\" is neither"),
            "{error}"
        );
    }
}
