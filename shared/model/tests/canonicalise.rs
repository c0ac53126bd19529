//! Tests of the defaults by job type and of the merging of blocks (`docs/rules/jobspec.md` §11, §12).

use api_types::*;
use model::{RegistrationDefaults, canonicalise, canonicalise_for_registration};
use proptest::option::of;
use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};
use proptest::sample::select;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

const DEFAULTS: RegistrationDefaults<'_> = RegistrationDefaults { priority: 60, node_pool: "gpu" };

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A job of the given type with the group `front`, which has the task `srv`.
fn job(kind: &str) -> Job {
    let task = Task { name: text("srv"), ..Task::default() };
    let group = TaskGroup { name: text("front"), tasks: Some(vec![task]), ..TaskGroup::default() };
    Job { id: text("web"), r#type: text(kind), task_groups: Some(vec![group]), ..Job::default() }
}

fn group(job: &mut Job) -> &mut TaskGroup {
    &mut job.task_groups.as_mut().expect("the scene has a group")[0]
}

fn task(job: &mut Job) -> &mut Task {
    &mut group(job).tasks.as_mut().expect("the scene has a task")[0]
}

fn canonical(mut job: Job) -> Job {
    canonicalise(&mut job);
    job
}

fn registered(mut job: Job) -> Job {
    canonicalise_for_registration(&mut job, DEFAULTS);
    job
}

fn restart(attempts: i64, interval: i64) -> RestartPolicy {
    RestartPolicy {
        attempts: Some(attempts),
        interval: Some(interval),
        delay: Some(15 * SECOND),
        mode: text("fail"),
        render_templates: Some(false),
    }
}

fn reschedule(
    attempts: i64,
    interval: i64,
    delay: i64,
    function: &str,
    max: i64,
    unlimited: bool,
) -> ReschedulePolicy {
    ReschedulePolicy {
        attempts: Some(attempts),
        interval: Some(interval),
        delay: Some(delay),
        delay_function: text(function),
        max_delay: Some(max),
        unlimited: Some(unlimited),
    }
}

fn update() -> UpdateStrategy {
    UpdateStrategy {
        stagger: Some(30 * SECOND),
        max_parallel: Some(1),
        health_check: text("checks"),
        min_healthy_time: Some(10 * SECOND),
        healthy_deadline: Some(5 * MINUTE),
        progress_deadline: Some(10 * MINUTE),
        auto_revert: Some(false),
        auto_promote: Some(false),
        canary: Some(0),
    }
}

fn migrate() -> MigrateStrategy {
    MigrateStrategy {
        max_parallel: Some(1),
        health_check: text("checks"),
        min_healthy_time: Some(10 * SECOND),
        healthy_deadline: Some(5 * MINUTE),
    }
}

#[test]
fn each_type_of_job_has_its_policies() {
    let unlimited = reschedule(0, 0, 30 * SECOND, "exponential", HOUR, true);
    let once_a_day = reschedule(1, 24 * HOUR, 5 * SECOND, "constant", 0, false);
    let zeros = reschedule(0, 0, 0, "", 0, false);
    let (twice, thrice) = (restart(2, 30 * MINUTE), restart(3, 24 * HOUR));
    let table = [
        ("service", twice.clone(), Some(unlimited), Some(update()), Some(migrate())),
        ("batch", thrice.clone(), Some(once_a_day), None, None),
        ("system", twice, None, Some(update()), None),
        ("sysbatch", thrice.clone(), None, None, None),
        ("daemon", thrice, Some(zeros), None, None),
    ];
    for (kind, restart, reschedule, update, migrate) in table {
        let mut job = canonical(job(kind));
        assert_eq!(job.update, update, "{kind}");
        assert_eq!(task(&mut job).restart_policy, Some(restart.clone()), "{kind}");
        let group = group(&mut job);
        assert_eq!(group.restart_policy, Some(restart), "{kind}");
        assert_eq!(group.reschedule_policy, reschedule, "{kind}");
        assert_eq!(group.update, update, "{kind}");
        assert_eq!(group.migrate, migrate, "{kind}");
    }
}

#[test]
fn a_block_that_the_type_does_not_have_is_kept_and_completed() {
    let mut batch = job("batch");
    batch.update = Some(UpdateStrategy { max_parallel: Some(3), ..UpdateStrategy::default() });
    batch.migrate = Some(MigrateStrategy { max_parallel: Some(2), ..MigrateStrategy::default() });
    let mut batch = canonical(batch);
    let expected = UpdateStrategy { max_parallel: Some(3), ..update() };
    assert_eq!(batch.update.as_ref(), Some(&expected));
    assert_eq!(group(&mut batch).update, Some(expected));
    assert_eq!(group(&mut batch).migrate, Some(MigrateStrategy { max_parallel: Some(2), ..migrate() }));

    let mut sysbatch = job("sysbatch");
    sysbatch.reschedule = Some(ReschedulePolicy { attempts: Some(3), ..ReschedulePolicy::default() });
    assert_eq!(group(&mut canonical(sysbatch)).reschedule_policy, Some(reschedule(3, 0, 0, "", 0, false)));
}

#[test]
fn the_groups_block_goes_before_the_jobs_and_that_before_the_default() {
    let mut service = job("service");
    service.update =
        Some(UpdateStrategy { max_parallel: Some(3), canary: Some(1), ..UpdateStrategy::default() });
    group(&mut service).update = Some(UpdateStrategy { canary: Some(0), ..UpdateStrategy::default() });
    let expected = UpdateStrategy { max_parallel: Some(3), canary: Some(0), ..update() };
    assert_eq!(group(&mut canonical(service)).update, Some(expected));
}

#[test]
fn the_tasks_restart_goes_before_the_groups() {
    let mut service = job("service");
    group(&mut service).restart_policy =
        Some(RestartPolicy { attempts: Some(9), mode: text("delay"), ..RestartPolicy::default() });
    task(&mut service).restart_policy = Some(RestartPolicy { attempts: Some(0), ..RestartPolicy::default() });
    let expected = RestartPolicy { mode: text("delay"), ..restart(0, 30 * MINUTE) };
    assert_eq!(task(&mut canonical(service)).restart_policy, Some(expected));
}

#[test]
fn an_update_block_of_zeros_as_reads_show_it_is_no_update_block() {
    let read = registered(job("batch"));
    assert_eq!(read.update.as_ref().and_then(|update| update.max_parallel), Some(0));
    assert_eq!(group(&mut registered(read)).update, None);
}

#[test]
fn a_count_comes_from_scaling_and_its_bound_from_the_count() {
    let scaled = |count, min| {
        let mut service = job("service");
        group(&mut service).count = count;
        group(&mut service).scaling = Some(Box::new(ScalingPolicy { min, ..ScalingPolicy::default() }));
        let mut service = canonical(service);
        let group = group(&mut service);
        (group.count, group.scaling.as_ref().and_then(|scaling| scaling.min))
    };
    assert_eq!(scaled(None, Some(4)), (Some(4), Some(4)));
    assert_eq!(scaled(Some(0), Some(4)), (Some(0), Some(4)));
    assert_eq!(scaled(None, None), (Some(1), Some(1)));
    assert_eq!(scaled(Some(7), None), (Some(7), Some(7)));
}

#[test]
fn cores_of_its_own_take_the_place_of_compute() {
    let mut service = job("service");
    task(&mut service).resources = Some(Resources { cores: Some(2), ..Resources::default() });
    let mut service = canonical(service);
    let resources = task(&mut service).resources.as_ref();
    assert_eq!(resources.map(|resources| (resources.cpu, resources.memory_mb)), Some((Some(0), Some(300))));
}

#[test]
fn a_single_file_is_downloaded_under_its_own_name() {
    let destination = |source, mode: Option<&str>| {
        let artifact = TaskArtifact {
            getter_source: text(source),
            getter_mode: mode.map(str::to_owned),
            ..TaskArtifact::default()
        };
        let mut service = job("service");
        task(&mut service).artifacts = Some(vec![artifact]);
        task(&mut canonical(service)).artifacts.as_ref().unwrap()[0].relative_dest.clone().unwrap()
    };
    assert_eq!(destination("https://example.org/dir/a.txt", Some("file")), "local/a.txt");
    assert_eq!(destination("https://example.org/dir/a.txt", None), "local/");
}

#[test]
fn a_signal_is_upper_case_and_only_there_when_it_is_sent() {
    let signal = |mode, signal: Option<&str>| {
        let template = Template {
            change_mode: text(mode),
            change_signal: signal.map(str::to_owned),
            ..Template::default()
        };
        let mut service = job("service");
        task(&mut service).templates = Some(vec![template]);
        task(&mut canonical(service)).templates.as_ref().unwrap()[0].change_signal.clone().unwrap()
    };
    assert_eq!(signal("signal", None), "SIGHUP");
    assert_eq!(signal("signal", Some("sigusr1")), "SIGUSR1");
    assert_eq!(signal("restart", None), "");
}

#[test]
fn checks_inherit_from_their_service() {
    let own = CheckRestart { limit: Some(0), grace: Some(MINUTE), ignore_warnings: None };
    let service = Service {
        on_update: text("ignore"),
        check_restart: Some(CheckRestart { limit: Some(5), grace: None, ignore_warnings: Some(true) }),
        checks: Some(vec![
            ServiceCheck { check_restart: Some(own), ..ServiceCheck::default() },
            ServiceCheck { on_update: text("require_healthy"), ..ServiceCheck::default() },
        ]),
        ..Service::default()
    };
    let mut job = job("service");
    group(&mut job).services = Some(vec![service]);
    let mut job = canonical(job);
    let checks = group(&mut job).services.as_ref().unwrap()[0].checks.as_ref().unwrap();
    let restart =
        |grace| Some(CheckRestart { limit: Some(5), grace: Some(grace), ignore_warnings: Some(true) });
    assert_eq!((&checks[0].on_update, &checks[0].check_restart), (&text("ignore"), &restart(MINUTE)));
    assert_eq!(
        (&checks[1].on_update, &checks[1].check_restart),
        (&text("require_healthy"), &restart(SECOND))
    );
}

/// The example of `docs/rules/jobspec.md` §11, as the parser returns it.
#[test]
fn the_parsers_example() {
    let port = |label: &str, value| Port { label: text(label), value: Some(value), ..Port::default() };
    let network = NetworkResource {
        reserved_ports: Some(vec![port("adm", 9000)]),
        dynamic_ports: Some(vec![port("http", 0)]),
        ..NetworkResource::default()
    };
    let mut example = job("service");
    example.r#type = None;
    group(&mut example).networks = Some(vec![network.clone()]);
    task(&mut example).driver = text("raw_exec");
    let mut example = canonical(example);

    assert_eq!((example.region.as_deref(), example.namespace.as_deref()), (Some("global"), Some("default")));
    assert_eq!((example.name.as_deref(), example.r#type.as_deref()), (Some("web"), Some("service")));
    assert_eq!((example.priority, example.all_at_once, example.stop), (Some(50), Some(false), Some(false)));
    assert_eq!((example.datacenters.as_ref(), example.node_pool.as_deref()), (None, Some("")));
    assert_eq!(
        (example.version, example.create_index, example.status.as_deref()),
        (Some(0), Some(0), Some(""))
    );

    let disk = EphemeralDisk { sticky: Some(false), size_mb: Some(300), migrate: Some(false) };
    assert_eq!(group(&mut example).count, Some(1));
    assert_eq!(group(&mut example).ephemeral_disk, Some(disk));
    assert_eq!(group(&mut example).networks, Some(vec![network]));

    let resources =
        Resources { cpu: Some(100), cores: Some(0), memory_mb: Some(300), ..Resources::default() };
    let logs =
        LogConfig { max_files: Some(10), max_file_size_mb: Some(10), disabled: Some(false), enabled: None };
    assert_eq!(task(&mut example).resources, Some(resources));
    assert_eq!(task(&mut example).log_config, Some(logs));
    assert_eq!(task(&mut example).kill_timeout, Some(5 * SECOND));
}

#[test]
fn registration_adds_what_depends_on_the_server() {
    let mut job = registered(job("service"));
    assert_eq!((job.priority, job.node_pool.as_deref()), (Some(60), Some("gpu")));
    assert_eq!(job.datacenters, Some(vec!["*".to_owned()]));
    let identity = task(&mut job).identity.as_ref().unwrap();
    assert_eq!(identity.name.as_deref(), Some("default"));
    assert_eq!(identity.audience, Some(vec!["nomadproject.io".to_owned()]));
}

#[test]
fn registration_leaves_what_the_job_says() {
    let mut job = job("service");
    job.priority = Some(0);
    job.node_pool = text("cpu");
    job.datacenters = Some(vec!["dc1".to_owned()]);
    let job = registered(job);
    assert_eq!((job.priority, job.node_pool.as_deref()), (Some(0), Some("cpu")));
    assert_eq!(job.datacenters, Some(vec!["dc1".to_owned()]));
}

#[test]
fn services_are_named_after_their_place() {
    let named = |name: &str| Service {
        name: text(name),
        provider: text("nomad"),
        checks: Some(vec![ServiceCheck::default()]),
        ..Service::default()
    };
    let mut job = job("service");
    job.namespace = text("prod");
    group(&mut job).services = Some(vec![named(""), named("${JOB}.${TASKGROUP}.${BASE}.${node.class}")]);
    task(&mut job).services = Some(vec![named(""), named("${TASK}.${BASE}")]);
    let mut job = registered(job);

    let group_services = group(&mut job).services.clone().unwrap();
    assert_eq!(group_services[0].name.as_deref(), Some("web-front"));
    assert_eq!(group_services[1].name.as_deref(), Some("web.front.web-front.${node.class}"));
    let task_services = task(&mut job).services.clone().unwrap();
    assert_eq!(task_services[0].name.as_deref(), Some("web-front-srv"));
    assert_eq!(task_services[1].name.as_deref(), Some("srv.web-front-srv"));
    assert_eq!(
        (task_services[0].task_name.as_deref(), task_services[0].namespace.as_deref()),
        (Some("srv"), Some("prod"))
    );
    let check = &task_services[0].checks.as_ref().unwrap()[0];
    assert_eq!(check.name.as_deref(), Some(r#"service: "web-front-srv" check"#));
}

#[test]
fn scaling_policies_are_told_their_target() {
    let mut job = job("service");
    group(&mut job).scaling = Some(Box::default());
    task(&mut job).scaling_policies = Some(vec![ScalingPolicy::default()]);
    let mut job = registered(job);
    let target = |policy: &ScalingPolicy| {
        policy
            .target
            .iter()
            .flatten()
            .map(|(key, name)| format!("{key}={name}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(target(group(&mut job).scaling.as_ref().unwrap()), "Group=front Job=web Namespace=default");
    let vertical = &task(&mut job).scaling_policies.as_ref().unwrap()[0];
    assert_eq!(target(vertical), "Group=front Job=web Namespace=default Task=srv");
    assert_eq!((vertical.enabled, vertical.min), (Some(true), Some(0)));
}

#[test]
fn a_disk_that_follows_also_stays() {
    let mut job = job("batch");
    group(&mut job).ephemeral_disk = Some(EphemeralDisk { migrate: Some(true), ..EphemeralDisk::default() });
    let mut job = registered(job);
    assert_eq!(group(&mut job).ephemeral_disk.as_ref().and_then(|disk| disk.sticky), Some(true));
}

#[test]
fn logs_that_are_not_enabled_are_disabled() {
    let mut job = job("batch");
    task(&mut job).log_config = Some(LogConfig { enabled: Some(false), ..LogConfig::default() });
    let mut job = registered(job);
    let logs = task(&mut job).log_config.as_ref().unwrap();
    assert_eq!((logs.disabled, logs.enabled), (Some(true), None));
}

fn some_number() -> impl Strategy<Value = Option<i64>> {
    of(select(vec![0, 1, 2, MINUTE]))
}

fn some_word() -> impl Strategy<Value = Option<String>> {
    of(select(vec!["", "checks", "signal", "sigint", "file"]).prop_map(str::to_owned))
}

fn some_update() -> impl Strategy<Value = Option<UpdateStrategy>> {
    let update = (some_number(), some_number(), some_word(), of(any::<bool>()));
    of(update.prop_map(|(stagger, max_parallel, health_check, auto_revert)| UpdateStrategy {
        stagger,
        max_parallel,
        health_check,
        auto_revert,
        ..UpdateStrategy::default()
    }))
}

fn some_task() -> impl Strategy<Value = Task> {
    let policies = (some_number(), some_word(), some_number(), of(any::<bool>()));
    let files = (some_word(), some_word(), some_word());
    (policies, files).prop_map(|((attempts, mode, cores, enabled), (word, change_mode, change_signal))| {
        Task {
            name: word.clone(),
            restart_policy: Some(RestartPolicy { attempts, mode, ..RestartPolicy::default() }),
            resources: Some(Resources { cores, ..Resources::default() }),
            log_config: Some(LogConfig { enabled, ..LogConfig::default() }),
            templates: Some(vec![Template { change_mode, change_signal, ..Template::default() }]),
            artifacts: Some(vec![TaskArtifact { getter_mode: word, ..TaskArtifact::default() }]),
            ..Task::default()
        }
    })
}

fn some_group() -> impl Strategy<Value = TaskGroup> {
    let blocks = (some_update(), some_number(), some_number(), some_number());
    let checks = (some_number(), some_number(), some_word(), of(any::<bool>()));
    (blocks, checks, proptest::collection::vec(some_task(), 0..3)).prop_map(
        |((update, count, min, attempts), (limit, own_limit, on_update, migrate), tasks)| {
            let restart = |limit| Some(CheckRestart { limit, ..CheckRestart::default() });
            let check = ServiceCheck { check_restart: restart(own_limit), ..ServiceCheck::default() };
            let service = Service {
                on_update,
                check_restart: restart(limit),
                checks: Some(vec![check]),
                ..Service::default()
            };
            TaskGroup {
                update,
                count,
                scaling: Some(Box::new(ScalingPolicy { min, ..ScalingPolicy::default() })),
                reschedule_policy: Some(ReschedulePolicy { attempts, ..ReschedulePolicy::default() }),
                ephemeral_disk: Some(EphemeralDisk { migrate, ..EphemeralDisk::default() }),
                services: Some(vec![service]),
                tasks: Some(tasks),
                ..TaskGroup::default()
            }
        },
    )
}

fn some_job() -> impl Strategy<Value = Job> {
    let kind = of(select(vec!["service", "batch", "system", "sysbatch", "daemon"]).prop_map(str::to_owned));
    (kind, some_update(), some_number(), proptest::collection::vec(some_group(), 0..3)).prop_map(
        |(kind, update, max_parallel, groups)| Job {
            r#type: kind,
            update,
            migrate: Some(MigrateStrategy { max_parallel, ..MigrateStrategy::default() }),
            task_groups: Some(groups),
            ..Job::default()
        },
    )
}

proptest! {
    #[test]
    fn applying_defaults_twice_changes_nothing(job in some_job()) {
        let once = canonical(job.clone());
        prop_assert_eq!(canonical(once.clone()), once);
        let once = registered(job);
        prop_assert_eq!(registered(once.clone()), once);
    }
}
