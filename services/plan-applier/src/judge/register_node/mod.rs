//! Registers a node, or updates its specification (N-2). This never changes the status of a known node (N-2.5).

mod class;

use std::sync::Arc;

use model::Text;
use model::change::Change;
use model::cluster::{NodePool, Singleton};
use model::node::{Driver, Node, NodeServerSide, NodeSpec, NodeStatus, Secret};
use wire::command::{Done, Handler, RegisterNode};
use wire::{Refusal, RefusalKind};

use super::host_volumes;
use super::nodes::{CLUSTER, affected_jobs};
use super::work::{Work, refusal};

/// Maximum length of a node pool's name.
const POOL_NAME_MAX: usize = 128;

impl Handler<RegisterNode> for Work<'_> {
    fn handle(&mut self, command: RegisterNode) -> Result<Done, Refusal> {
        self.check_epoch(Singleton::NodeTracker, command.epoch)?;
        let RegisterNode { id, spec, .. } = command;
        check(&spec)?;
        let spec = canonical(spec);
        let known = self.state().node(id).map(|node| Arc::clone(node.node()));
        let Some(known) = known else {
            create_pool(self, &spec.node_pool)?;
            let server = NodeServerSide {
                status_updated_at: self.at(),
                events: vec![self.node_event(CLUSTER, "Node registered")],
                create_index: self.index(),
                modify_index: self.index(),
                ..NodeServerSide::default()
            };
            self.apply(Change::Node(Box::new(Node { id, spec, server })))?;
            host_volumes::follow_node(self, id)?;
            return Ok(Done { object_index: self.index(), ..Done::default() });
        };
        if known.spec.secret_id != spec.secret_id {
            return Err(refusal(
                RefusalKind::Conflict,
                "node secret ID does not match. Not registering node.",
            ));
        }
        let status = known.server.status;
        let needs_evals = status == NodeStatus::Down || may_change_placements(&known.spec, &spec);
        let mut object_index = known.server.modify_index;
        if known.spec != spec {
            object_index = self.index();
            create_pool(self, &spec.node_pool)?;
            let server = NodeServerSide { modify_index: object_index, ..known.server.clone() };
            if status == NodeStatus::Ready {
                self.unblock_class(Text::clone(&spec.computed_class));
            }
            self.apply(Change::Node(Box::new(Node { id, spec, server })))?;
        }
        host_volumes::follow_node(self, id)?;
        if needs_evals {
            let affected = affected_jobs(self.state(), &[id]);
            self.evaluate_affected(affected)?;
        }
        Ok(Done { object_index, ..Done::default() })
    }
}

/// Refuses a node that lacks a required field (N-2.3).
fn check(spec: &NodeSpec) -> Result<(), Refusal> {
    let missing = [
        (spec.datacenter.is_empty(), "missing datacenter for client registration"),
        (spec.name.is_empty(), "missing node name for client registration"),
        (spec.attributes.is_empty(), "missing attributes for client registration"),
        (spec.secret_id == Secret::default(), "missing node secret ID for client registration"),
    ];
    if let Some((_, message)) = missing.into_iter().find(|(is_missing, _)| *is_missing) {
        return Err(refusal(RefusalKind::Invalid, message));
    }
    let pool = &*spec.node_pool;
    if pool == NodePool::ALL {
        let message = format!("node is not allowed to register in node pool \"{pool}\"");
        return Err(refusal(RefusalKind::Invalid, message));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if pool.len() > POOL_NAME_MAX || !pool.chars().all(is_name) {
        return Err(refusal(RefusalKind::Invalid, format!("invalid node pool name \"{pool}\"")));
    }
    Ok(())
}

/// Fills in the default node pool if the node names none, and the computed class, which replaces the agent's (N-1.4,
/// N-1.6).
fn canonical(mut spec: Arc<NodeSpec>) -> Arc<NodeSpec> {
    if spec.node_pool.is_empty() {
        Arc::make_mut(&mut spec).node_pool = NodePool::DEFAULT.into();
    }
    let class = class::computed(&spec);
    if *spec.computed_class != *class {
        Arc::make_mut(&mut spec).computed_class = class.into();
    }
    spec
}

/// Creates a node pool with the first node that names it (N-2.8).
fn create_pool(work: &mut Work<'_>, name: &Text) -> Result<(), Refusal> {
    if work.state().node_pool(name).is_some() {
        return Ok(());
    }
    work.apply(Change::NodePool(Box::new(NodePool {
        name: Text::clone(name),
        create_index: work.index(),
        modify_index: work.index(),
        ..NodePool::default()
    })))
}

/// Whether a new specification requires evaluations of the jobs on the node. Changed amounts alone do not (N-2.10).
fn may_change_placements(old: &NodeSpec, new: &NodeSpec) -> bool {
    let drivers = |spec: &NodeSpec| {
        let works = |driver: &Driver| (driver.detected, driver.healthy, driver.attributes.clone());
        spec.drivers.iter().map(|(name, driver)| (Text::clone(name), works(driver))).collect::<Vec<_>>()
    };
    old.datacenter != new.datacenter
        || old.name != new.name
        || old.node_class != new.node_class
        || old.attributes != new.attributes
        || old.meta != new.meta
        || old.host_volumes != new.host_volumes
        || old.resources.devices != new.resources.devices
        || drivers(old) != drivers(new)
}
