//! Compares a state with the naive model. Every query is made, and everything that the state counts is counted again
//! from whole allocations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::alloc::{Allocation, Demand, PackedAssigned};
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::{Job, JobSubmission, JobType};
use model::node::{Node, NodeStatus, PortRanges};
use model::{Index, JobKey, JobVersionKey, NodeId, Text};
use state::{AllocRef, NodePage, NodePorts, PAGE, State, Table, View};

use crate::naive::Naive;
use crate::{pool, requests};

pub(crate) fn assert_same(state: &State, naive: &Naive) {
    assert_eq!((state.index(), state.at()), (naive.index, naive.at));
    for table in Table::ALL {
        let expected = naive.tables.get(&table).copied().unwrap_or_default();
        assert_eq!(state.table_index(table), expected, "index of {table:?}");
    }
    let unblocked: Vec<_> = naive.unblocked.iter().map(|(key, index)| (key, *index)).collect();
    assert_eq!(state.unblocked().collect::<Vec<_>>(), unblocked);
    for job in pool::job_keys() {
        assert_eq!(state.plan_index(&job), naive.plans.get(&job).copied().unwrap_or_default());
        for table in Table::ALL {
            let expected = naive.job_index(table, &job);
            assert_eq!(state.job_index(table, &job), expected, "{table:?} of {job}");
        }
    }
    assert_same_allocs(state, naive);
    assert_same_jobs(state, naive);
    assert_same_evals(state, naive);
    assert_same_deployments(state, naive);
    assert_same_nodes(state, naive);
}

/// Asserts that a state with a smaller scope agrees with the entire state in that scope.
pub(crate) fn assert_scoped(part: &State, entire: &State) {
    assert_eq!((part.index(), part.at()), (entire.index(), entire.at()));
    for table in Table::ALL.into_iter().filter(|table| part.scope().has(*table)) {
        assert_eq!(part.table_index(table), entire.table_index(table), "index of {table:?}");
    }
    let scope = part.scope();
    if scope.has(Table::Jobs) {
        assert!(part.jobs().eq(entire.jobs()));
        for job in pool::job_keys().filter(|_| scope.has(Table::Evals)) {
            assert_eq!(part.plan_index(&job), entire.plan_index(&job));
            assert_eq!(part.job_index(Table::Evals, &job), entire.job_index(Table::Evals, &job));
        }
        assert!(!scope.has_lists() || part.jobs_by_change(..).eq(entire.jobs_by_change(..)));
    }
    if scope.has(Table::JobSummaries) {
        assert!(pool::job_keys().all(|job| part.job_summary(&job) == entire.job_summary(&job)));
    }
    if scope.has(Table::Evals) {
        assert!(part.evals().eq(entire.evals()) && part.live_evals().eq(entire.live_evals()));
        assert!(!scope.has_lists() || part.evals_by_creation(..).eq(entire.evals_by_creation(..)));
    }
    if scope.has(Table::Deployments) {
        assert!(part.deployments().eq(entire.deployments()));
    }
    if scope.has(Table::Nodes) {
        assert!(part.nodes().map(|node| node.node()).eq(entire.nodes().map(|node| node.node())));
    }
    if scope.has(Table::Allocs) {
        let mut of_part: Vec<AllocRef<'_>> = part.allocs().collect();
        of_part.sort_by_key(|alloc| alloc.id());
        assert_eq!(to_allocations(of_part.into_iter()), to_allocations(entire.allocs_in(..)));
        for job in pool::job_keys() {
            assert_eq!(by_id(part.allocs_of_job(&job)), by_id(entire.allocs_of_job(&job)), "of {job}");
        }
        assert!(
            !scope.has_lists()
                || part.allocs_in(..).map(AllocRef::id).eq(entire.allocs_in(..).map(AllocRef::id))
        );
    }
    if scope.has(Table::Unblocked) {
        assert!(part.unblocked().eq(entire.unblocked()));
    }
}

fn assert_same_allocs(state: &State, naive: &Naive) {
    assert_eq!(state.alloc_count(), naive.allocs.len());
    assert_eq!(to_allocations(state.allocs_in(..)), naive.allocs.values().cloned().collect::<Vec<_>>());
    for id in pool::alloc_ids() {
        let expected = naive.allocs.get(&id);
        assert_eq!(state.alloc(id).map(AllocRef::to_allocation).as_ref(), expected);
        let from_here = naive.allocs.range(id..).map(|(id, _)| *id);
        assert!(state.allocs_in(id..).map(AllocRef::id).eq(from_here), "allocations from {id} on");
        if let (Some(alloc), Some(expected)) = (state.alloc(id), expected) {
            assert_derived(alloc, expected, naive);
        }
    }
    let created = created(naive.allocs.values().map(|alloc| (alloc.create_index, alloc.id)));
    for from in starts(&created) {
        let by_creation = state.allocs_by_creation(from..).map(|alloc| (alloc.create_index(), alloc.id()));
        assert!(by_creation.eq(created.range(from..).copied()), "allocations created from {from:?} on");
    }
    for job in pool::job_keys() {
        let of_job = || naive.allocs.values().filter(|alloc| alloc.common.job.job == job);
        assert_eq!(by_id(state.allocs_of_job(&job)), of_job().cloned().collect::<Vec<_>>(), "of {job}");
        let live = of_job().filter(|alloc| counts(alloc, View::Live)).count();
        assert_eq!(state.live_alloc_count(&job), live, "of {job}");
    }
    let used: BTreeSet<&JobVersionKey> = naive.allocs.values().map(|alloc| &alloc.common.job).collect();
    for version in naive.jobs.keys().chain(used.iter().copied()) {
        assert_eq!(state.is_version_in_use(version), used.contains(version), "{version}");
    }
    for node in pool::node_ids() {
        let expected: Vec<_> = naive.allocs_of_node(node).into_iter().cloned().collect();
        assert_eq!(by_id(state.allocs_of_node(node)), expected, "on {node}");
        if let Some(node) = state.node(node) {
            assert_eq!(by_id(node.allocs()), expected, "on {}", node.id());
        }
    }
}

/// Compares values that a view derives.
fn assert_derived(alloc: AllocRef<'_>, expected: &Allocation, naive: &Naive) {
    assert_eq!(alloc.name(), expected.name());
    assert_eq!(alloc.resources(), expected.resources());
    assert_eq!(alloc.demand(), expected.resources().demand());
    assert_eq!(alloc.is_terminal(), !counts(expected, View::Live));
    assert_eq!(alloc.job().version_key(), expected.common.job);
    let node = alloc.node().map(|node| (node.id(), node.slot()));
    let known = naive.nodes.contains_key(&expected.node_id);
    assert_eq!(node, known.then_some((expected.node_id, alloc.node_slot())));
}

fn assert_same_jobs(state: &State, naive: &Naive) {
    let current: BTreeMap<JobKey, &Job> = naive.jobs.values().map(|job| (job.key(), job)).collect();
    assert_eq!(derefs(state.jobs()), current.values().copied().collect::<Vec<_>>());
    assert_eq!(state.job_count(), current.len());
    let system = |job: &&Job| job.spec.kind == JobType::System && !job.spec.stop;
    assert_eq!(derefs(state.system_jobs()), current.values().copied().filter(system).collect::<Vec<_>>());
    let mut by_change: Vec<_> = current.values().map(|job| (job.modify_index, job.key())).collect();
    by_change.sort();
    assert!(state.jobs_by_change(..).map(|job| (job.modify_index, job.key())).eq(by_change));
    for key in pool::job_keys() {
        assert_eq!(state.job(&key).map(Arc::as_ref), current.get(&key).copied());
        assert_eq!(derefs(state.job_versions(&key)), naive.versions(&key));
        assert_eq!(state.job_summary(&key).map(Arc::as_ref), naive.summaries.get(&key));
        let submissions = naive.submissions.values().filter(|submission| submission.version.job == key);
        assert_eq!(derefs(state.job_submissions(&key)), submissions.collect::<Vec<&JobSubmission>>());
    }
    for (key, submission) in &naive.submissions {
        assert_eq!(state.job_submission(key).map(Arc::as_ref), Some(submission));
    }
    for (key, job) in &naive.jobs {
        assert_eq!(state.job_version(key).map(Arc::as_ref), Some(job));
    }
}

fn assert_same_evals(state: &State, naive: &Naive) {
    assert_eq!(derefs(state.evals()), naive.evals.values().collect::<Vec<_>>());
    for (id, eval) in &naive.evals {
        assert_eq!(state.eval(*id).map(Arc::as_ref), Some(eval));
    }
    let created = created(naive.evals.values().map(|eval| (eval.create_index, eval.id)));
    for from in starts(&created) {
        let by_creation = state.evals_by_creation(from..).map(|eval| (eval.create_index, eval.id));
        assert!(by_creation.eq(created.range(from..).copied()), "evaluations created from {from:?} on");
    }
    for key in pool::job_keys() {
        let mut evals: Vec<&Evaluation> = naive.evals.values().filter(|eval| eval.job == key).collect();
        assert_eq!(derefs(state.evals_of_job(&key)), evals);
        evals.retain(|eval| !eval.status.is_terminal());
        assert_eq!(derefs(state.live_evals_of_job(&key)), evals);
    }
}

fn assert_same_deployments(state: &State, naive: &Naive) {
    assert_eq!(derefs(state.deployments()), naive.deployments.values().collect::<Vec<_>>());
    for (id, deployment) in &naive.deployments {
        assert_eq!(state.deployment(*id).map(Arc::as_ref), Some(deployment));
    }
    let all = naive.deployments.values();
    let created = created(all.map(|deployment| (deployment.create_index, deployment.id)));
    for from in starts(&created) {
        let by_creation = state.deployments_by_creation(from..);
        let by_creation = by_creation.map(|deployment| (deployment.create_index, deployment.id));
        assert!(by_creation.eq(created.range(from..).copied()), "deployments created from {from:?} on");
    }
    for key in pool::job_keys() {
        let deployments = naive.deployments.values().filter(|deployment| deployment.job.job == key);
        let deployments: Vec<&Deployment> = deployments.collect();
        assert_eq!(derefs(state.deployments_of_job(&key)), deployments);
        let latest =
            deployments.into_iter().max_by_key(|deployment| (deployment.create_index, deployment.id));
        assert_eq!(state.latest_deployment(&key).map(Arc::as_ref), latest);
    }
}

fn assert_same_nodes(state: &State, naive: &Naive) {
    assert_eq!(state.node_count(), naive.nodes.len());
    assert!(state.nodes().map(|node| &**node.node()).eq(naive.nodes.values()));
    let pages: Vec<&NodePage> = state.node_pages().collect();
    for (number, page) in pages.iter().enumerate() {
        assert!(state.node_page(number).is_some_and(|numbered| std::ptr::eq(numbered, *page)));
        let limits = |bit| (page.capacity(bit), page.max_allocs[bit]);
        assert_eq!(page.is_even(), (1..PAGE).all(|bit| limits(bit) == limits(0)));
        for usage in [&page.held, &page.live] {
            assert_eq!(usage.is_empty(), usage.allocs == [0; PAGE]);
        }
    }
    assert!(state.node_page(pages.len()).is_none());
    let mut taken = BTreeSet::new();
    let with_allocs = naive.allocs.values().map(|alloc| alloc.node_id);
    for id in naive.nodes.keys().copied().chain(with_allocs).collect::<BTreeSet<NodeId>>() {
        let known = state.node(id);
        let slot = known.map(|node| node.slot());
        let slot = slot.or_else(|| state.allocs_of_node(id).next().map(AllocRef::node_slot));
        let slot = slot.expect("a node that is known or has allocations has a slot") as usize;
        assert!(taken.insert(slot), "two nodes share slot {slot}");
        assert_page_bit(state, pages[slot / PAGE], slot % PAGE, naive.nodes.get(&id));
        let work = naive.work.get(&id).copied().unwrap_or_default();
        assert_eq!(pages[slot / PAGE].work[slot % PAGE], work, "work of {id}");
        let allocs = naive.allocs_of_node(id);
        assert_usage(pages[slot / PAGE], slot % PAGE, &allocs);
        if let Some(node) = known {
            assert_eq!(state.node_at(node.slot()).map(|node| node.id()), Some(id));
            let (page, bit) = node.page();
            assert!(std::ptr::eq(page, pages[slot / PAGE]) && bit == slot % PAGE);
            assert_eq!(node.work_index(), work);
            assert_eq!(node.usage(View::Held), pages[slot / PAGE].held.at(slot % PAGE));
            assert_eq!(node.usage(View::Live), pages[slot / PAGE].live.at(slot % PAGE));
            assert_ports(node.ports(), &allocs);
        }
    }
    assert_kinds(state, naive);
    for slot in (0..pages.len() * PAGE).filter(|slot| !taken.contains(slot)) {
        assert_page_bit(state, pages[slot / PAGE], slot % PAGE, None);
        assert_eq!(pages[slot / PAGE].work[slot % PAGE], Index::ZERO);
        assert_usage(pages[slot / PAGE], slot % PAGE, &[]);
        assert!(state.node_at(slot as u32).is_none());
    }
}

/// Asserts that nodes have the same kind exactly if a scheduler can distinguish them only by unique attributes.
fn assert_kinds(state: &State, naive: &Naive) {
    let mut kinds: BTreeMap<_, u32> = BTreeMap::new();
    for node in state.nodes() {
        let spec = &naive.nodes[&node.id()].spec;
        let drivers = spec.drivers.iter().map(|(name, driver)| (name, driver.detected && driver.healthy));
        let networks = spec.resources.node_networks.iter().map(|network| {
            let aliases = network.addresses.iter().map(|address| &address.alias);
            (&network.mode, aliases.collect::<Vec<_>>())
        });
        let older = spec.resources.networks.iter().map(|network| &network.mode);
        let what = (
            (&spec.computed_class, &spec.datacenter, &spec.node_pool, &spec.node_class),
            (drivers.collect::<Vec<_>>(), networks.collect::<Vec<_>>(), older.collect::<Vec<_>>()),
        );
        let (page, bit) = node.page();
        let kind = page.kind[bit];
        assert_eq!(*kinds.entry(what).or_insert(kind), kind);
    }
    let numbers: BTreeSet<u32> = kinds.values().copied().collect();
    assert_eq!(numbers.len(), kinds.len(), "nodes that differ have the same kind");
}

/// Compares one bit of a page with the node in that slot, or `None` if the slot is free.
fn assert_page_bit(state: &State, page: &NodePage, bit: usize, node: Option<&Node>) {
    let sets = [page.known, page.ready, page.down, page.disconnected, page.draining, page.invalid_ports];
    let bits = sets.map(|set| set >> bit & 1 == 1);
    let capacity = page.capacity(bit);
    let (id, max_allocs) = (page.ids[bit], page.max_allocs[bit]);
    let numbers = [page.class[bit], page.datacenter[bit], page.pool[bit]];
    let Some(node) = node else {
        assert_eq!((bits, id), ([false; 6], NodeId::from_bytes([0; 16])));
        assert_eq!((capacity, max_allocs, numbers), (Demand::default(), 0, [0; 3]));
        assert_eq!(page.kind[bit], 0);
        return;
    };
    let status = node.server.status;
    let (down, disconnected) = (status == NodeStatus::Down, status == NodeStatus::Disconnected);
    let mut lists = node.spec.reserved_port_lists();
    let garbled = lists.any(|list| PortRanges::read(list).is_none());
    let draining = node.server.drain.is_some();
    assert_eq!(bits, [true, node.is_ready(), down, disconnected, draining, garbled], "{id}");
    assert_eq!((id, capacity, max_allocs), (node.id, node.spec.capacity(), node.spec.max_allocs));
    let named = [
        (state.classes(), &node.spec.computed_class),
        (state.datacenters(), &node.spec.datacenter),
        (state.pools_in_use(), &node.spec.node_pool),
    ];
    for ((names, name), number) in named.into_iter().zip(numbers) {
        assert_eq!((names.name(number), names.number(name)), (Some(name), Some(number)));
    }
    assert!((page.kind[bit] as usize) < state.node_kinds());
}

fn assert_usage(page: &NodePage, bit: usize, allocs: &[&Allocation]) {
    for view in [View::Held, View::Live] {
        let counted = allocs.iter().filter(|alloc| counts(alloc, view));
        let mut sum = (Demand::default(), 0);
        for demand in counted.map(|alloc| alloc.resources().demand()) {
            sum.0.cpu_mhz += demand.cpu_mhz;
            sum.0.memory_mb += demand.memory_mb;
            sum.0.disk_mb += demand.disk_mb;
            sum.1 += 1;
        }
        let usage = page.usage(view);
        assert_eq!((usage.at(bit), usage.allocs[bit]), sum, "{view:?} on bit {bit}");
    }
    let special = allocs.iter().any(|alloc| counts(alloc, View::Held) && is_special(alloc));
    assert_eq!(page.special >> bit & 1 == 1, special);
}

fn assert_ports(ports: Option<&NodePorts>, allocs: &[&Allocation]) {
    for view in [View::Held, View::Live] {
        let mut holders: BTreeMap<(Text, u16), u32> = BTreeMap::new();
        for resources in allocs.iter().filter(|alloc| counts(alloc, view)).map(|alloc| alloc.resources()) {
            for (address, port) in resources.host_ports(&PackedAssigned::default()) {
                *holders.entry((address.into(), port)).or_default() += 1;
            }
        }
        let used = holders.keys().cloned().collect();
        let twice =
            holders.iter().filter(|(_, holders)| **holders > 1).map(|(port, _)| port.clone()).collect();
        assert_eq!(ports.map_or_else(BTreeSet::new, |ports| owned(ports.iter(view))), used, "{view:?}");
        assert_eq!(
            ports.map_or_else(BTreeSet::new, |ports| owned(ports.collisions(view))),
            twice,
            "{view:?}"
        );
        for (address, port) in requests::addresses_and_ports() {
            let counted = ports.map_or(0, |ports| ports.holders(&address, port, view));
            let is_used = ports.is_some_and(|ports| ports.is_used(&address, port, view));
            let expected = holders.get(&(address, port)).copied().unwrap_or_default();
            assert_eq!((counted, is_used), (expected, expected > 0), "{view:?}");
        }
        if view == View::Held {
            assert_eq!(ports.is_some(), !used.is_empty());
        }
    }
}

/// Whether an allocation counts in a view (`docs/rules/scheduling.md` ).
fn counts(alloc: &Allocation, view: View) -> bool {
    let held = !alloc.client_status.is_terminal();
    match view {
        View::Held => held,
        View::Live => held && !alloc.desired_status.is_terminal(),
    }
}

/// Whether an allocation has ports, devices or cores of its own.
fn is_special(alloc: &Allocation) -> bool {
    let resources = alloc.resources();
    let owns = |task: &model::alloc::TaskResources| !task.cores.is_empty() || !task.devices.is_empty();
    resources.has_networks() || resources.tasks.iter().any(owns)
}

/// Objects in the order of their creation, and then by id.
fn created<Id: Ord + Copy>(objects: impl Iterator<Item = (Index, Id)>) -> BTreeSet<(Index, Id)> {
    objects.collect()
}

/// Objects at which a list may begin: the first, the middle and the last.
fn starts<Id: Copy>(created: &BTreeSet<(Index, Id)>) -> Vec<(Index, Id)> {
    let positions = [0, created.len() / 2, created.len().saturating_sub(1)];
    positions.into_iter().filter_map(|position| created.iter().nth(position).copied()).collect()
}

fn to_allocations<'a>(allocs: impl Iterator<Item = AllocRef<'a>>) -> Vec<Allocation> {
    allocs.map(AllocRef::to_allocation).collect()
}

fn by_id<'a>(allocs: impl ExactSizeIterator<Item = AllocRef<'a>>) -> Vec<Allocation> {
    let expected = allocs.len();
    let mut allocs = to_allocations(allocs);
    assert_eq!(allocs.len(), expected);
    allocs.sort_by_key(|alloc| alloc.id);
    allocs
}

fn derefs<'a, T>(objects: impl Iterator<Item = &'a Arc<T>>) -> Vec<&'a T> {
    objects.map(Arc::as_ref).collect()
}

fn owned<'a>(ports: impl Iterator<Item = (&'a Text, u16)>) -> BTreeSet<(Text, u16)> {
    ports.map(|(address, port)| (address.clone(), port)).collect()
}
