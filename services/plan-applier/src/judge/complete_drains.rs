//! Marks allocations of draining nodes to migrate, and completes drains, if that is still right on the newest state (N-10).

use std::collections::BTreeMap;

use model::alloc::DesiredTransition;
use model::change::{AllocsChanged, Change, NodesChanged};
use model::cluster::Singleton;
use model::columns::AllocIds;
use model::eval::EvalTrigger;
use model::job::JobType;
use model::node::{DrainStatus, LastDrain, NodeEvent, NodeServerSide};
use model::{AllocId, Text};
use planted_bugs::{Bug, is_planted};
use wire::Refusal;
use wire::command::{CompleteDrains, Done, DrainAllocs, DrainEnd, Handler};

use super::update_drain::DRAIN;
use super::work::Work;

impl Handler<DrainAllocs> for Work<'_> {
    fn handle(&mut self, command: DrainAllocs) -> Result<Done, Refusal> {
        self.check_epoch(Singleton::DeploymentWatcher, command.epoch)?;
        let allocs = command.allocs.iter().filter_map(|id| self.state().alloc(*id));
        let allocs = allocs.filter(|alloc| alloc.may_migrate() && alloc.is_on_draining_node());
        let ids = allocs.map(|alloc| alloc.id()).collect();
        migrate(self, ids)?;
        Ok(Done::default())
    }
}

impl Handler<CompleteDrains> for Work<'_> {
    fn handle(&mut self, command: CompleteDrains) -> Result<Done, Refusal> {
        self.check_epoch(Singleton::DeploymentWatcher, command.epoch)?;
        let (mut ended, mut left) = (Vec::new(), Vec::new());
        for end in command.drains {
            let Some(node) = self.state().node(end.node) else { continue };
            let Some(drain) = node.server().drain else { continue };
            let is_over = if end.deadline_reached {
                drain.due().is_some_and(|due| due <= self.at())
            } else {
                node.is_drained()
            };
            if is_over {
                left.extend(node.left_to_drain(drain.ignore_system_jobs).map(|alloc| alloc.id()));
                ended.push(end);
            }
        }
        if !is_planted(Bug::LeavesAllocsBehind) {
            migrate(self, left)?;
        }
        ended.into_iter().try_for_each(|end| complete(self, end))?;
        Ok(Done::default())
    }
}

/// Marks allocations to migrate, and evaluates each of their jobs. Batch work is not run elsewhere (N-10.9).
fn migrate(work: &mut Work<'_>, ids: Vec<AllocId>) -> Result<(), Refusal> {
    let (mut moving, mut ending) = (Vec::new(), Vec::new());
    let mut jobs = BTreeMap::new();
    for alloc in ids.into_iter().filter_map(|id| work.state().alloc(id)) {
        let spec = &alloc.job().spec;
        jobs.entry(alloc.job_key().clone()).or_insert((spec.kind, spec.priority));
        if spec.kind == JobType::Batch { &mut ending } else { &mut moving }.push(alloc.id());
    }
    let moves = DesiredTransition { migrate: Some(true), ..DesiredTransition::default() };
    let ends = DesiredTransition { migrate_disable_placement: Some(true), ..moves };
    for (ids, transition) in [(moving, moves), (ending, ends)] {
        if !ids.is_empty() {
            work.change_allocs(AllocsChanged {
                ids: AllocIds(ids),
                by_servers: true,
                transition: Some(transition),
                ..AllocsChanged::default()
            })?;
        }
    }
    for (job, (kind, priority)) in jobs {
        work.create_eval(&job, kind, priority, EvalTrigger::NodeDrain, |_| {})?;
    }
    Ok(())
}

/// Ends the drain of a node, which stays ineligible (N-10.4).
fn complete(work: &mut Work<'_>, end: DrainEnd) -> Result<(), Refusal> {
    let DrainEnd { node: id, deadline_reached } = end;
    let Some(node) = work.state().node(id) else { return Ok(()) };
    let (before, at) = (node.server().clone(), work.at());
    let Some(drain) = before.drain else { return Ok(()) };
    let last = before.last_drain.clone().unwrap_or_else(|| LastDrain {
        started_at: drain.started_at,
        updated_at: at,
        status: DrainStatus::Complete,
        accessor_id: Text::default(),
        meta: BTreeMap::new(),
    });
    let server = NodeServerSide {
        drain: None,
        last_drain: Some(LastDrain { updated_at: at, status: DrainStatus::Complete, ..last }),
        status_updated_at: at,
        modify_index: work.index(),
        ..before
    };
    work.apply(Change::NodeServerSide { id, server: Box::new(server) })?;
    let event = Some(complete_event(work, deadline_reached));
    work.apply(Change::NodesChanged(Box::new(NodesChanged {
        ids: vec![id],
        event,
        ..NodesChanged::default()
    })))
}

fn complete_event(work: &Work<'_>, deadline_reached: bool) -> NodeEvent {
    let event = work.node_event(DRAIN, "Node drain complete");
    if !deadline_reached {
        return event;
    }
    let [name, value] = ["deadline_reached", "true"].map(Text::from);
    NodeEvent { details: BTreeMap::from([(name, value)]), ..event }
}
