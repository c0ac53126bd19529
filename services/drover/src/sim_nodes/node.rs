//! The allocations of one simulated node, and when it reports them. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};

use model::alloc::{
    ClientStatus, DesiredStatus, PackedTaskStates, TaskEvent, TaskEventKind, TaskRunState, TaskState,
};
use model::{AllocId, DeploymentId, Nanos, Text, Timestamp};
use wire::node::{AllocReport, WorkAlloc, WorkChanges, WorkIndex};

use super::job::SimJob;

/// Messages to a node. They decode only the part of each job that a simulated node uses.
pub(super) type Wake = wire::node::Wake<SimJob>;
pub(super) type Work = wire::node::Work<SimJob>;
pub(super) type WorkAllocs = wire::node::WorkAllocs<SimJob>;

/// How often an agent checks whether there is something to report.
const TICK: Nanos = Nanos(200 * Nanos::MILLISECOND.0);
/// Reports that are not urgent wait until so much time has passed since the last report.
const RELAXED_INTERVAL: Nanos = Nanos(5 * TICK.0);

/// A node's allocations.
#[derive(Debug)]
pub(super) struct SimNode {
    start: Nanos,
    /// The time from which ticks are counted.
    ticks_from: Timestamp,
    last_report: Timestamp,
    index: WorkIndex,
    allocs: HashMap<AllocId, SimAlloc>,
    /// Allocations to report at the next tick after their time.
    urgent: Due,
    /// Allocations to report at the next tick that is also [`RELAXED_INTERVAL`] after the last report.
    typical: Due,
    /// Allocations that are listed, but have not been received yet.
    missing: HashSet<AllocId>,
}

/// Allocations to report, ordered by time.
type Due = BTreeSet<(Timestamp, AllocId)>;

/// A simulated allocation.
#[derive(Debug)]
struct SimAlloc {
    tasks: Vec<Text>,
    known_at: Timestamp,
    status: ClientStatus,
    /// The deployment that it is part of, and when it has been healthy for the required time.
    health: Option<(DeploymentId, Timestamp)>,
    reports: u32,
}

/// Whether a node has received all of its work.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fetched {
    /// These allocations must still be fetched.
    More(Vec<AllocId>),
    /// All work has been received.
    All,
}

impl SimNode {
    /// A node that starts now. Its allocations run after a delay of `start`.
    pub(super) fn new(start: Nanos, now: Timestamp) -> Self {
        Self {
            start,
            ticks_from: now,
            last_report: Timestamp::UNSET,
            index: WorkIndex::default(),
            allocs: HashMap::new(),
            urgent: Due::new(),
            typical: Due::new(),
            missing: HashSet::new(),
        }
    }

    /// The index of the work that the node has received.
    pub(super) fn index(&self) -> WorkIndex {
        self.index
    }

    /// Records that the node has received all work up to `index`.
    pub(super) fn advance_to(&mut self, index: WorkIndex) {
        self.index.advance_to(index);
    }

    /// Applies the node's work. Allocations that are not listed any more are gone.
    pub(super) fn apply(&mut self, work: &Work, now: Timestamp) -> Fetched {
        let listed: HashSet<AllocId> = work.allocs.iter().map(|(id, _)| *id).collect();
        self.allocs.retain(|id, _| listed.contains(id));
        self.urgent.retain(|(_, id)| listed.contains(id));
        self.typical.retain(|(_, id)| listed.contains(id));
        if work.index.history != self.index.history {
            // The servers may have lost earlier reports.
            let reported = self.allocs.iter().filter(|(_, alloc)| alloc.reports > 0);
            self.urgent.extend(reported.map(|(id, _)| (now, *id)));
        }
        let known = self.index.within(work.index.history);
        let news = work.allocs.iter().filter(|(_, index)| *index > known).map(|(id, _)| *id);
        self.missing = if work.changed.more { news.collect() } else { HashSet::new() };
        self.apply_more(&work.changed, now)
    }

    /// Applies the work in a wake, if it follows the index of the node without a gap.
    pub(super) fn apply_wake(&mut self, wake: Wake, now: Timestamp) {
        let index = wake.work_index;
        let Some(WorkChanges { gone, changed, .. }) = wake.changes_after(self.index) else { return };
        gone.0.iter().for_each(|id| drop(self.allocs.remove(id)));
        changed.allocs.iter().for_each(|alloc| self.apply_alloc(&changed, alloc, now));
        self.advance_to(index);
    }

    /// Applies further allocations of its work.
    pub(super) fn apply_more(&mut self, more: &WorkAllocs, now: Timestamp) -> Fetched {
        for alloc in &more.allocs {
            self.missing.remove(&alloc.id);
            self.apply_alloc(more, alloc, now);
        }
        // An allocation that was asked for and is not in the answer is gone.
        if !more.more || more.allocs.is_empty() || self.missing.is_empty() {
            return Fetched::All;
        }
        Fetched::More(self.missing.iter().copied().collect())
    }

    fn apply_alloc(&mut self, work: &WorkAllocs, alloc: &WorkAlloc, now: Timestamp) {
        let ended =
            |status| matches!(status, ClientStatus::Complete | ClientStatus::Failed | ClientStatus::Lost);
        if ended(alloc.client_status) {
            return;
        }
        let Some((common, job)) = work.shared(alloc) else { return };
        let group = job.spec.task_groups.iter().find(|group| group.name == common.task_group);
        let runs = alloc.desired_status == DesiredStatus::Run;
        let deployment = common.deployment_id.filter(|_| runs && alloc.healthy.is_none());
        let update = group.and_then(|group| group.update.as_ref());
        let health = |runs_at: Timestamp| Some((deployment?, runs_at + update?.min_healthy_time));
        if let Some(known) = self.allocs.get_mut(&alloc.id) {
            if !runs && !ended(known.status) {
                known.status = ClientStatus::Complete;
                self.urgent.insert((now, alloc.id));
            } else if alloc.client_status == ClientStatus::Unknown {
                self.urgent.insert((now, alloc.id));
            }
            if deployment != known.health.map(|(deployment, _)| deployment) {
                known.health = health(now.max(known.known_at + self.start));
                self.typical.extend(known.health.map(|(_, at)| (at, alloc.id)));
            }
            return;
        }
        let tasks = group.into_iter().flat_map(|group| &group.tasks).map(|task| task.name.clone()).collect();
        let status = if runs { ClientStatus::Running } else { ClientStatus::Complete };
        let changes_at = if runs { now + self.start } else { now };
        let health = health(changes_at);
        self.urgent.insert((changes_at, alloc.id));
        self.typical.extend(health.map(|(_, at)| (at, alloc.id)));
        self.allocs.insert(alloc.id, SimAlloc { tasks, known_at: now, status, health, reports: 0 });
    }

    /// The time of the next report, if there is one.
    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        let urgent = self.urgent.first().map(|(due, _)| self.tick_from(*due));
        let relaxed = |due: Timestamp| self.tick_from(due.max(self.last_report + RELAXED_INTERVAL));
        urgent.into_iter().chain(self.typical.first().map(|(due, _)| relaxed(*due))).min()
    }

    /// The first tick at or after `moment`.
    fn tick_from(&self, moment: Timestamp) -> Timestamp {
        let since = (moment - self.ticks_from).0.max(0);
        self.ticks_from + Nanos((since + TICK.0 - 1) / TICK.0 * TICK.0)
    }

    /// The reports that are due. With `all`, also reports all running allocations.
    pub(super) fn due(&mut self, now: Timestamp, all: bool) -> Vec<AllocReport> {
        if !all && self.poll_timeout().is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.last_report = now;
        let is_live = |alloc: &SimAlloc| {
            alloc.status == ClientStatus::Running && now.0 - alloc.known_at.0 >= self.start.0
        };
        let live = self.allocs.iter().filter(|(_, alloc)| all && is_live(alloc));
        let mut ids: BTreeSet<AllocId> = live.map(|(id, _)| *id).collect();
        for due in [&mut self.urgent, &mut self.typical] {
            while let Some((at, id)) = due.first().copied().filter(|(at, _)| *at <= now) {
                due.remove(&(at, id));
                ids.insert(id);
            }
        }
        let start = self.start;
        let report = |id| {
            let alloc = self.allocs.get_mut(&id)?;
            alloc.reports += 1;
            Some(alloc.report(id, start, now))
        };
        ids.into_iter().filter_map(report).collect()
    }

    /// Schedules reports again that did not arrive.
    pub(super) fn report_again(&mut self, ids: &[AllocId], at: Timestamp) {
        self.urgent.extend(ids.iter().filter(|id| self.allocs.contains_key(id)).map(|id| (at, *id)));
    }
}

impl SimAlloc {
    fn report(&self, id: AllocId, start: Nanos, now: Timestamp) -> AllocReport {
        let running = self.status == ClientStatus::Running;
        let event = |time, kind| TaskEvent { time, fails_task: false, kind };
        let states = self.tasks.iter().map(|task| TaskState {
            state: if running { TaskRunState::Running } else { TaskRunState::Dead },
            started_at: self.known_at,
            finished_at: if running { Timestamp::UNSET } else { now },
            events: vec![
                event(self.known_at, TaskEventKind::Received),
                event(self.known_at, TaskEventKind::TaskSetup { message: Text::default() }),
                event(self.known_at + start, TaskEventKind::Started),
            ],
            ..TaskState::pending(task.clone())
        });
        AllocReport {
            id,
            count: self.reports,
            status: self.status,
            description: if running { "Tasks are running" } else { "All tasks have completed" }.into(),
            task_states: PackedTaskStates::pack(&states.collect::<Vec<_>>()),
            network: None,
            health: self.health.filter(|(_, at)| running && *at <= now).map(|(_, at)| (true, at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::alloc::{AllocCommon, AllocatedResources, DesiredTransition, PackedAssigned, PackedMetric};
    use model::job::{Job, JobSpec, Task, TaskGroup, UpdateStrategy};
    use model::{EvalId, HistoryId, Index};
    use wire::node::WorkCommon;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000);
    const RUN: (DesiredStatus, ClientStatus) = (DesiredStatus::Run, ClientStatus::Pending);
    const STOP: (DesiredStatus, ClientStatus) = (DesiredStatus::Stop, ClientStatus::Running);

    fn id(number: u8) -> AllocId {
        AllocId::from_bytes([number; 16])
    }

    fn after(millis: i64) -> Timestamp {
        NOW + Nanos(millis * Nanos::MILLISECOND.0)
    }

    fn at(history: u8, index: u64) -> WorkIndex {
        WorkIndex { history: HistoryId::from_bytes([history; 16]), index: Index(index) }
    }

    /// A node whose allocations run after a second.
    fn sim_node() -> SimNode {
        SimNode::new(Nanos::SECOND, NOW)
    }

    /// Allocations of a group with two tasks.
    fn work_allocs(allocs: &[(u8, (DesiredStatus, ClientStatus))], more: bool) -> WorkAllocs {
        let task = |name: &str| Task { name: name.into(), ..Task::default() };
        let tasks = vec![task("web"), task("log")];
        let update = UpdateStrategy { min_healthy_time: Nanos::from_secs(5), ..UpdateStrategy::default() };
        let group = TaskGroup { name: "group".into(), update: Some(update), tasks, ..TaskGroup::default() };
        let spec = Arc::new(JobSpec { task_groups: vec![group].into(), ..JobSpec::default() });
        let job = Job { spec, ..Job::default() };
        let common = AllocCommon {
            name_stem: "job.group".into(),
            job: job.version_key(),
            task_group: "group".into(),
            eval_id: EvalId::from_bytes([1; 16]),
            deployment_id: None,
            resources: AllocatedResources::default(),
            metrics: PackedMetric::default(),
            trace: None,
        };
        let alloc = |(number, (desired_status, client_status)): &(u8, _)| WorkAlloc {
            id: id(*number),
            common: 0,
            name_index: None,
            assigned: PackedAssigned::default(),
            desired_status: *desired_status,
            desired_transition: DesiredTransition::default(),
            client_status: *client_status,
            canary: false,
            healthy: None,
            previous: None,
            migrate_token: None,
            preempted: Vec::new(),
            alloc_modify_index: Index(1),
            create_time: NOW,
        };
        as_read(&wire::node::WorkAllocs {
            allocs: allocs.iter().map(alloc).collect(),
            jobs: vec![Arc::new(job)],
            commons: vec![WorkCommon { job: 0, common: Arc::new(common) }],
            more,
        })
    }

    /// The message as a simulated node decodes it.
    fn as_read(sent: &wire::node::WorkAllocs) -> WorkAllocs {
        let kind = <WorkAllocs as wire::Wire>::KIND;
        wire::envelope::decode(kind, 1, &wire::envelope::encode(sent)).unwrap()
    }

    /// The same allocations as part of a deployment.
    fn deployed(number: u8, mut work_allocs: WorkAllocs) -> WorkAllocs {
        let common = Arc::make_mut(&mut work_allocs.commons[0].common);
        common.deployment_id = Some(DeploymentId::from_bytes([number; 16]));
        work_allocs
    }

    /// A node's work in which all listed allocations changed at the index.
    fn work(index: u64, listed: &[u8], changed: WorkAllocs) -> Work {
        let allocs = listed.iter().map(|number| (id(*number), Index(index))).collect();
        Work { index: at(1, index), allocs, changed }
    }

    fn reported(node: &mut SimNode, now: Timestamp) -> Vec<(AllocId, ClientStatus)> {
        node.due(now, false).into_iter().map(|report| (report.id, report.status)).collect()
    }

    #[test]
    fn an_allocation_runs_after_a_moment() {
        let mut node = sim_node();
        assert_eq!(node.apply(&work(5, &[1], work_allocs(&[(1, RUN)], false)), NOW), Fetched::All);
        assert_eq!(reported(&mut node, after(999)), []);
        assert_eq!(node.poll_timeout(), Some(after(1_000)));
        let reports = node.due(after(1_000), false);
        let [AllocReport { count: 1, status: ClientStatus::Running, task_states, .. }] = &reports[..] else {
            panic!("{reports:?}")
        };
        let states = task_states.unpack().unwrap();
        assert_eq!(states.iter().map(|task| &*task.task).collect::<Vec<_>>(), ["web", "log"]);
        assert!(states.iter().all(|task| task.state == TaskRunState::Running && task.events.len() == 3));
        assert_eq!(node.poll_timeout(), None, "it is reported once");
    }

    #[test]
    fn changes_of_one_interval_are_reported_together() {
        let mut node = sim_node();
        for (number, millis) in [(1, 10), (2, 150), (3, 210)] {
            node.apply(
                &work(4 + u64::from(number), &[1, 2, 3], work_allocs(&[(number, RUN)], false)),
                after(millis),
            );
        }
        assert_eq!(node.poll_timeout(), Some(after(1_200)));
        assert_eq!(reported(&mut node, after(1_199)), []);
        let running = |number| (id(number), ClientStatus::Running);
        assert_eq!(reported(&mut node, after(1_200)), [running(1), running(2)]);
        assert_eq!(node.poll_timeout(), Some(after(1_400)));
        assert_eq!(reported(&mut node, after(1_400)), [running(3)]);
    }

    #[test]
    fn health_waits_a_second_for_what_cannot_wait() {
        let mut node = sim_node();
        node.apply(&work(5, &[1], deployed(1, work_allocs(&[(1, RUN)], false))), NOW);
        node.advance_to(at(1, 5));
        assert_eq!(reported(&mut node, after(1_000)).len(), 1);
        node.apply(&work(6, &[1, 2], work_allocs(&[(2, RUN)], false)), after(4_500));
        assert_eq!(reported(&mut node, after(5_600)).len(), 1);
        // Healthy at 6,000, and the last report was at 5,600.
        assert_eq!(node.poll_timeout(), Some(after(6_600)));
        node.apply(&work(7, &[1, 2, 3], work_allocs(&[(3, RUN)], false)), after(5_100));
        assert_eq!(node.poll_timeout(), Some(after(6_200)));
        let reports = node.due(after(6_200), false);
        let summaries: Vec<_> = reports.iter().map(|report| (report.id, report.health.is_some())).collect();
        assert_eq!(summaries, [(id(1), true), (id(3), false)]);
        assert_eq!(node.poll_timeout(), None);
    }

    #[test]
    fn one_that_is_to_stop_does_so_at_once() {
        let mut node = sim_node();
        node.apply(&work(5, &[1, 2], work_allocs(&[(1, RUN), (2, STOP)], false)), NOW);
        node.advance_to(at(1, 5));
        assert_eq!(reported(&mut node, NOW), [(id(2), ClientStatus::Complete)], "it had not begun");
        reported(&mut node, after(1_000));
        node.apply(&work(6, &[1, 2], work_allocs(&[(1, STOP)], false)), after(2_000));
        assert_eq!(reported(&mut node, after(2_000)), [(id(1), ClientStatus::Complete)]);
        node.apply(&work(7, &[1, 2], work_allocs(&[(1, STOP)], false)), after(3_000));
        assert_eq!(reported(&mut node, after(3_000)), []);
    }

    #[test]
    fn one_of_a_deployment_is_healthy_once_it_has_run_long_enough() {
        let mut node = sim_node();
        let mut changed = deployed(1, work_allocs(&[(1, RUN)], false));
        node.apply(&work(5, &[1], changed.clone()), NOW);
        node.advance_to(at(1, 5));
        let health = |node: &mut SimNode, millis| {
            let reports = node.due(after(millis), false);
            reports.into_iter().map(|report| report.health).collect::<Vec<_>>()
        };
        assert_eq!(health(&mut node, 1_000), [None]);
        assert_eq!(node.poll_timeout(), Some(after(6_000)));
        assert_eq!(health(&mut node, 6_000), [Some((true, after(6_000)))]);

        // The next deployment keeps it as it is.
        changed = deployed(2, changed);
        node.apply(&work(6, &[1], changed.clone()), after(20_000));
        assert_eq!(health(&mut node, 25_000), [Some((true, after(25_000)))]);
        changed.allocs[0].healthy = Some(true);
        node.apply(&work(7, &[1], changed), after(30_000));
        assert_eq!(node.poll_timeout(), None);
    }

    #[test]
    fn one_that_is_not_listed_is_gone_and_one_that_has_ended_is_let_be() {
        let mut node = sim_node();
        node.apply(&work(5, &[1], work_allocs(&[(1, RUN)], false)), NOW);
        node.apply(
            &work(6, &[2], work_allocs(&[(2, (DesiredStatus::Run, ClientStatus::Failed))], false)),
            NOW,
        );
        assert_eq!((node.poll_timeout(), reported(&mut node, after(5_000))), (None, vec![]));
    }

    #[test]
    fn one_that_the_servers_lost_sight_of_is_reported_again() {
        let mut node = sim_node();
        node.apply(&work(5, &[1], work_allocs(&[(1, RUN)], false)), NOW);
        reported(&mut node, after(1_000));
        let unknown = (DesiredStatus::Run, ClientStatus::Unknown);
        node.apply(&work(6, &[1], work_allocs(&[(1, unknown)], false)), after(2_000));
        assert_eq!(reported(&mut node, after(2_000)), [(id(1), ClientStatus::Running)]);
    }

    #[test]
    fn the_rest_is_asked_for_until_it_is_told_or_gone() {
        let mut node = sim_node();
        let Fetched::More(mut rest) =
            node.apply(&work(5, &[1, 2, 3, 4], work_allocs(&[(1, RUN)], true)), NOW)
        else {
            panic!("three are missing")
        };
        rest.sort_unstable();
        assert_eq!(rest, [2, 3, 4].map(id));
        let Fetched::More(mut rest) = node.apply_more(&work_allocs(&[(2, RUN)], true), NOW) else {
            panic!("two are missing")
        };
        rest.sort_unstable();
        assert_eq!(rest, [3, 4].map(id));
        assert_eq!(node.apply_more(&work_allocs(&[(3, RUN)], false), NOW), Fetched::All, "4 is gone");
        assert_eq!(
            node.apply_more(&work_allocs(&[], true), NOW),
            Fetched::All,
            "another request would bring nothing either"
        );
        node.advance_to(at(1, 5));
        node.advance_to(at(1, 4));
        assert_eq!((node.index(), reported(&mut node, after(1_000)).len()), (at(1, 5), 3));
    }

    #[test]
    fn known_allocations_are_not_requested() {
        let mut node = sim_node();
        node.advance_to(at(1, 4));
        let mut work = work(5, &[1, 2], work_allocs(&[], true));
        work.allocs[0].1 = Index(4);
        work.changed.allocs = work_allocs(&[(2, RUN)], true).allocs;
        assert_eq!(node.apply(&work, NOW), Fetched::All);
    }

    #[test]
    fn a_node_begins_anew_with_another_history() {
        let mut node = sim_node();
        node.apply(&work(5, &[1, 2], work_allocs(&[(1, RUN), (2, RUN)], false)), NOW);
        node.advance_to(at(1, 5));
        reported(&mut node, after(1_000));
        let work = Work { index: at(2, 4), ..work(4, &[1, 3], work_allocs(&[(3, RUN)], true)) };
        assert!(work.index.is_newer_than(node.index()));
        assert_eq!(node.apply(&work, after(2_000)), Fetched::More(vec![id(1)]));
        assert_eq!(reported(&mut node, after(2_000)), [(id(1), ClientStatus::Running)], "it may be lost");
        node.advance_to(work.index);
        assert_eq!(node.index(), at(2, 4));
    }

    #[test]
    fn all_that_run_are_reported_where_that_is_asked() {
        let mut node = sim_node();
        node.apply(&work(5, &[1, 2], work_allocs(&[(1, RUN), (2, RUN)], false)), NOW);
        reported(&mut node, after(1_000));
        node.apply(&work(6, &[1, 2, 3], work_allocs(&[(2, STOP), (3, RUN)], false)), after(1_500));
        // 3 has not begun. 2 ends, and is reported once.
        let reports = node.due(after(1_500), true);
        let summaries: Vec<_> =
            reports.iter().map(|report| (report.id, report.status, report.count)).collect();
        assert_eq!(summaries, [(id(1), ClientStatus::Running, 2), (id(2), ClientStatus::Complete, 2)]);
    }

    #[test]
    fn lost_reports_are_repeated_for_existing_allocations() {
        let mut node = sim_node();
        node.apply(&work(5, &[1], work_allocs(&[(1, RUN)], false)), NOW);
        reported(&mut node, after(1_000));
        node.report_again(&[id(1), id(9)], after(2_000));
        assert_eq!(node.poll_timeout(), Some(after(2_000)));
        assert_eq!(reported(&mut node, after(2_000)), [(id(1), ClientStatus::Running)]);
    }
}
