//! Commands about neither jobs nor nodes: built-in objects, leases, settings, and the broker's updates of evaluations.

use model::change::Change;
use model::change::{Cause, Unblocked};
use model::cluster::{Namespace, NodePool, SchedulerAlgorithm, SchedulerConfig, Singleton};
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::{JobSpec, JobStatus, JobType};
use model::keyring::RootKey;
use model::{Epoch, EvalId, Index, JobKey, RootKeyId, Timestamp};
use wire::RefusalKind;
use wire::command::{
    AddRootKey, Command, DeleteEvals, DeleteNamespace, DeleteNodePool, DeregisterJob, EVALS_DELETED_MAX,
    EvalUpdate, SetNamespace, SetNodePool, SetSchedulerConfig, TakeLease, UpdateEvals,
};

use super::scene::{EPOCH, Scene, process, service};
use crate::judge::bootstrap;

#[test]
fn a_cluster_begins_with_its_built_in_objects_once() {
    // A new cluster gets its built-in node pools and the default scheduler configuration (N-28.4, R-11.1, R-11.5).
    let scene = Scene::new();
    assert_eq!(bootstrap(&scene.state), None);
    assert!(scene.state.namespace("default").is_some());
    let pools: Vec<_> = scene.state.node_pools().map(|pool| (&*pool.name, pool.create_index)).collect();
    assert_eq!(pools, [("all", Index(1)), ("default", Index(1))]);
    let config = scene.state.scheduler_config().unwrap();
    assert_eq!(config.algorithm, Some(SchedulerAlgorithm::Binpack));
    assert!(config.preemption.system && !config.preemption.service);
    assert_eq!(config.modify_index, Index(1));
}

#[test]
fn a_lease_changes_hands_when_its_holder_is_silent() {
    // A lease is granted to another process, with the next epoch, once its holder is not alive (`docs/architecture/leases.md`).
    let mut scene = Scene::new();
    let take = |number| TakeLease { service: Singleton::EvalBroker, process: process(number), gone: None };
    let done = scene.done(Command::TakeLease(take(1)));
    assert_eq!((done.written, done.epoch), (false, Some(Epoch(1))), "the holder has it already");
    assert_eq!(scene.refused(Command::TakeLease(take(2))).0, RefusalKind::Conflict);
    scene.live = false;
    let done = scene.done(Command::TakeLease(take(2)));
    assert_eq!((done.epoch, done.object_index), (Some(Epoch(2)), done.index));
    let old =
        UpdateEvals { epoch: EPOCH, updates: Vec::new(), creates: Vec::new(), forget_unblocked_before: None };
    assert_eq!(scene.refused(Command::UpdateEvals(old)).0, RefusalKind::Deposed);
}

#[test]
fn settings_are_replaced_whole_and_only_if_they_are_those_expected() {
    // A write replaces the whole configuration; with an enforced index, only if the index matches.
    let mut scene = Scene::new();
    let set = |enforce_index| {
        let config = SchedulerConfig { node_limit: 7, ..SchedulerConfig::default() };
        Command::SetSchedulerConfig(SetSchedulerConfig { config, enforce_index })
    };
    assert_eq!(scene.refused(set(Some(Index(9)))).0, RefusalKind::Conflict);
    let done = scene.done(set(Some(Index(1))));
    let config = *scene.state.scheduler_config().unwrap();
    assert_eq!((config.create_index, config.modify_index, config.node_limit), (Index(1), done.index, 7));
    assert_eq!(config.algorithm, None, "an omitted field is unset");
    scene.done(set(None));
}

#[test]
fn a_cluster_has_one_key_to_sign_with() {
    let mut scene = Scene::new();
    let add = |number: u8| {
        let key = RootKey {
            id: RootKeyId::from_bytes([number; 16]),
            modulus: "3q0".into(),
            exponent: "AQAB".into(),
            create_time: Timestamp::UNSET,
            create_index: Index::ZERO,
            modify_index: Index::ZERO,
        };
        Command::AddRootKey(AddRootKey { key })
    };
    let index = scene.done(add(1)).index;
    assert!(!scene.done(add(2)).written, "there is a key already");
    let keys: Vec<_> = scene.state.root_keys().map(|key| (key.id, key.create_index)).collect();
    assert_eq!(keys, [(RootKeyId::from_bytes([1; 16]), index)]);
    assert!(scene.state.root_keys().all(|key| key.create_time.is_set()));
}

#[test]
fn a_namespace_is_there_for_as_long_as_something_in_it_lives() {
    // A namespace with live objects cannot be deleted (http-api §19).
    let mut scene = Scene::new();
    let set = |description: &str| {
        let namespace =
            Namespace { name: "team".into(), description: description.into(), ..Namespace::default() };
        Command::SetNamespace(Box::new(SetNamespace { namespace }))
    };
    let delete = |name: &str| Command::DeleteNamespace(DeleteNamespace { name: name.into() });
    let made = scene.done(set("a")).index;
    let changed = scene.done(set("b")).index;
    let namespace = scene.state.namespace("team").unwrap().clone();
    assert_eq!((namespace.create_index, namespace.modify_index), (made, changed));
    assert_eq!(&*namespace.description, "b");
    scene.register(JobSpec { namespace: "team".into(), ..service("web") });
    let (kind, text) = scene.refused(delete("team"));
    assert_eq!(kind, RefusalKind::Conflict);
    assert_eq!(
        text,
        "1 error occurred:\n\t* namespace \"team\" has non-terminal jobs in regions: [global]\n\n"
    );
    let job = JobKey::new("team", "web");
    scene.done(Command::DeregisterJob(DeregisterJob {
        job,
        purge: true,
        eval_priority: None,
        no_shutdown_delay: false,
    }));
    scene.done(delete("team"));
    assert!(scene.state.namespace("team").is_none());
    assert_eq!(scene.refused(delete("team")), (RefusalKind::NotFound, "namespace not found".to_owned()));
    assert_eq!(scene.refused(delete("default")).1, "can not delete default namespace");
}

#[test]
fn a_node_pool_is_there_for_as_long_as_something_is_in_it() {
    // A node pool with nodes or live jobs cannot be deleted (http-api §17).
    let mut scene = Scene::new();
    scene.node();
    let set = |name: &str| {
        let pool = NodePool { name: name.into(), ..NodePool::default() };
        Command::SetNodePool(Box::new(SetNodePool { pool }))
    };
    let delete = |name: &str| Command::DeleteNodePool(DeleteNodePool { name: name.into() });
    let done = scene.done(set("gpu"));
    assert_eq!(scene.state.node_pool("gpu").unwrap().modify_index, done.index);
    assert_eq!(scene.refused(set("all")).1, "modifying node pool \"all\" is not allowed");
    for built_in in ["all", "default"] {
        assert_eq!(scene.refused(delete(built_in)).0, RefusalKind::Conflict, "the pool contains a node");
    }
    scene.done(delete("gpu"));
    assert_eq!(scene.refused(delete("gpu")), (RefusalKind::NotFound, "node pool gpu not found".to_owned()));
}

fn update(ids: Vec<EvalId>, status: EvalStatus) -> EvalUpdate {
    EvalUpdate { ids, status, description: "why".into(), next_eval: None, unless_changed_since: None }
}

fn command(updates: Vec<EvalUpdate>, creates: Vec<Evaluation>) -> Command {
    Command::UpdateEvals(UpdateEvals { epoch: EPOCH, updates, creates, forget_unblocked_before: None })
}

fn follow_up(scene: &mut Scene, job: &JobKey, previous: EvalId) -> Evaluation {
    let id = EvalId::from_bytes(scene.id());
    let eval = Evaluation::new(id, job.clone(), JobType::Service, 50, EvalTrigger::FailedFollowUp);
    Evaluation { previous_eval: Some(previous), ..eval }
}

#[test]
fn an_evaluation_that_is_given_up_is_followed_by_another() {
    // An evaluation that failed too often becomes failed, and gets a follow-up.
    let mut scene = Scene::new();
    let key = scene.register(service("web"));
    let failed = scene.pending(&key)[0].id;
    let next = follow_up(&mut scene, &key, failed);
    let update = EvalUpdate { next_eval: Some(next.id), ..update(vec![failed], EvalStatus::Failed) };
    let again =
        command(vec![update.clone()], vec![Evaluation { id: EvalId::from_bytes([8; 16]), ..next.clone() }]);
    let done = scene.done(command(vec![update], vec![next.clone()]));
    let eval = scene.eval(failed);
    assert_eq!(
        (eval.status, &*eval.status_description, eval.next_eval),
        (EvalStatus::Failed, "why", Some(next.id))
    );
    assert_eq!(scene.eval(next.id).create_index, done.index);
    assert_eq!(scene.job_status(&key), JobStatus::Pending);
    assert_eq!(scene.cause(), Some(Cause::EvaluationUpdated));
    assert!(!scene.done(again).written, "a failed evaluation gets no second follow-up");
}

#[test]
fn terminal_and_changed_evals_are_left_alone() {
    let mut scene = Scene::new();
    let key = scene.register(service("web"));
    let id = scene.pending(&key)[0].id;
    let before = Index(scene.eval(id).modify_index.0 - 1);
    let stale = EvalUpdate { unless_changed_since: Some(before), ..update(vec![id], EvalStatus::Canceled) };
    let next = follow_up(&mut scene, &key, id);
    assert!(!scene.done(command(vec![stale.clone()], vec![next])).written);
    scene.complete_pending(&key);
    let gone = EvalId::from_bytes([7; 16]);
    assert!(!scene.done(command(vec![update(vec![id, gone], EvalStatus::Failed)], Vec::new())).written);
    assert_eq!(scene.eval(id).status, EvalStatus::Complete);
}

#[test]
fn evaluations_are_forgotten_while_they_rest() {
    // Evaluations can be deleted only while the broker is paused.
    let mut scene = Scene::new();
    let keys = [scene.register(service("a")), scene.register(service("b"))];
    let ids: Vec<EvalId> = keys.iter().map(|key| scene.pending(key)[0].id).collect();
    let gone = EvalId::from_bytes([7; 16]);
    let delete = |ids: &[EvalId]| Command::DeleteEvals(DeleteEvals { ids: ids.to_vec() });
    let (kind, text) = scene.refused(delete(&ids));
    assert_eq!(kind, RefusalKind::NotReady);
    assert_eq!(text, "eval broker is enabled; eval broker must be paused to delete evals");

    let config = SchedulerConfig { pause_eval_broker: true, ..SchedulerConfig::default() };
    scene.done(Command::SetSchedulerConfig(SetSchedulerConfig { config, enforce_index: None }));
    let many = vec![gone; EVALS_DELETED_MAX + 1];
    assert_eq!(scene.refused(delete(&many)).0, RefusalKind::Invalid);
    assert!(!scene.done(delete(&many[1..])).written, "there is no such evaluation");
    assert!(scene.done(delete(&[ids[1], gone, ids[1]])).written);
    assert_eq!(scene.last(), [Change::EvalsDeleted(vec![ids[1]])]);
    assert!(scene.state.eval(ids[0]).is_some() && scene.state.eval(ids[1]).is_none());
}

#[test]
fn records_of_room_are_forgotten_when_nobody_needs_them() {
    // Unblock records older than an index are deleted on request.
    let mut scene = Scene::new();
    let classes = vec!["v1:1".into()];
    let room = Unblocked { classes, ..Unblocked::default() };
    scene.commit(Cause::AllocationUpdated, vec![Change::Unblocked(room)]);
    let forget = |before| {
        let forget_unblocked_before = Some(before);
        let (updates, creates) = (Vec::new(), Vec::new());
        Command::UpdateEvals(UpdateEvals { epoch: EPOCH, updates, creates, forget_unblocked_before })
    };
    let at = scene.state.index();
    assert!(!scene.done(forget(at)).written);
    assert!(scene.done(forget(at.next())).written);
    assert_eq!(scene.state.unblocked().count(), 0);
}
