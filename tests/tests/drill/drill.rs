//! Runs the unchanged compose file from the first start to its removal: a newcomer's three commands, more schedulers,
//! every container killed in turn while jobs are registered, and nothing left behind.

use std::collections::BTreeSet;
use std::time::Duration;

use telemetry::clock::monotonic as now;
use tests::containers::compose::{self, Project};
use tests::containers::engine::{Engine, Network};
use tests::containers::images::{self, Binary};
use tests::harness::api::{Api, array, text};
use tests::harness::wait_until;
use tests::skips::skip;

use crate::registrar::Registrar;
use crate::timeline::Timeline;
use crate::{DOCKER, policy, release_binary};

/// Number of jobs that are registered while containers are killed.
const JOBS: usize = 1_000;
/// Number of schedulers and APIs, all of which must take part.
const SCHEDULERS: usize = 4;
const APIS: usize = 2;
/// The longest time until a job is placed that is registered when a container dies.
const PLACING_AGAIN: Duration = Duration::from_secs(10);
/// Lines of each container's log that a failure prints.
const LOG_TAIL_LINES: usize = 12;
/// The published address of the API.
const ADDRESS: &str = "127.0.0.1:4646";
/// The port of each service's health endpoint and metrics.
const HEALTH_PORT: u16 = 4650;
/// The metric by which a scheduler is known to have placed something.
const PLANS: &str = "drover_scheduler_plans_submitted_total";

#[tokio::test]
#[ignore = "takes minutes and the release: make drill"]
async fn compose_holds_what_it_promises() {
    let name = "compose_holds_what_it_promises";
    if let Some(cause) = tests::containers::unavailable().or_else(compose::unavailable) {
        return skip(name, DOCKER, &cause);
    }
    let timeline = Timeline::begin();
    make_images(&release_binary());
    timeline.note("images are built");

    let engine = Engine::start(Network::Own);
    engine.enter_network();
    let project = Project::new(&engine);
    let explain = || engine.log_tails(LOG_TAIL_LINES);
    let faults = policy::faults(&project.resolved("*"));
    assert!(faults.is_empty(), "the compose file breaks rules: {faults:#?}");
    assert_eq!(project.run(&["config", "--quiet"]), "");
    timeline.note("the compose file is clean");

    project.run(&["up", "--detach", "--wait", "--no-build"]);
    timeline.note(&format!("up: {} containers are healthy", project.containers().len()));

    let output = project.run(&["exec", "-T", "api", "drover", "job", "run", "/examples/hello.nomad.hcl"]);
    assert!(output.contains("successful"), "{output}");
    timeline.note("drover job run examples/hello.nomad.hcl: healthy");

    let schedulers = format!("scheduler={SCHEDULERS}");
    let apis = format!("api={APIS}");
    project.run(&["up", "--detach", "--wait", "--no-build", "--scale", &schedulers, "--scale", &apis]);
    timeline.note(&format!("scaled: {} containers are healthy", project.containers().len()));

    let mut registrar = Registrar::new(Api::new(ADDRESS.to_owned()));
    all_schedulers_place(&project, &engine, &mut registrar).await;
    timeline.note(&format!("all {SCHEDULERS} schedulers have placed jobs ({PLANS})"));

    kill_each(&project, &engine, &mut registrar, timeline).await;
    wait_until(
        "every acknowledged job has run",
        async || {
            let lost = registrar.lost().await?;
            assert!(lost.jobs.is_empty(), "acknowledged jobs are lost: {:?}\n{}", lost.jobs, explain());
            (lost.placements.is_empty() && lost.runs.is_empty()).then_some(())
        },
        explain,
    )
    .await;
    timeline.note(&format!("all {} acknowledged jobs exist, were placed and have run", registrar.count()));
    hello_runs(explain).await;
    timeline.note("the example's two tasks run");

    project.run(&["down", "--volumes"]);
    for list in [&["ps", "--all", "--quiet"][..], &["volume", "ls", "--quiet"]] {
        assert_eq!(engine.run(list), "", "docker {list:?} shows what `down -v` has left");
    }
    let networks = engine.run(&["network", "ls", "--format", "{{.Name}}"]);
    let networks: BTreeSet<&str> = networks.lines().collect();
    assert_eq!(networks, BTreeSet::from(["bridge", "host", "none"]));
    timeline.note("down -v: nothing is left");
}

/// Builds all images of the compose file, under their names in it.
fn make_images(binary: &Binary) {
    let engine = Engine::start(Network::Host);
    images::debian(&engine);
    if matches!(binary, Binary::Compiled) {
        images::rust(&engine);
    }
    for name in Project::new(&engine).images() {
        match name.as_str() {
            "drover:dev" => images::drover(&engine, binary, "server", &name),
            "drover-agent:dev" => images::drover(&engine, binary, "agent", &name),
            _ => images::official(&engine, &name),
        }
    }
}

/// Registers jobs until a plan of each scheduler has been accepted.
async fn all_schedulers_place(project: &Project<'_>, engine: &Engine, registrar: &mut Registrar) {
    /// Enough jobs that each of four schedulers gets some.
    const JOBS_MAX: usize = 200;
    let containers = project.containers();
    let schedulers = containers.values().filter(|container| container.service == "scheduler");
    let schedulers: Vec<&str> = schedulers.map(|container| container.name.as_str()).collect();
    assert_eq!(schedulers.len(), SCHEDULERS);
    let mut idle = schedulers.clone();
    while !idle.is_empty() {
        assert!(registrar.count() < JOBS_MAX, "{idle:?} place nothing\n{}", engine.log_tails(LOG_TAIL_LINES));
        registrar.place(|| engine.log_tails(LOG_TAIL_LINES)).await;
        let mut still = Vec::new();
        for scheduler in idle {
            if plans(engine, scheduler).await == 0.0 {
                still.push(scheduler);
            }
        }
        idle = still;
    }
}

/// How many plans of a scheduler were accepted in full, according to its own metrics.
async fn plans(engine: &Engine, container: &str) -> f64 {
    let addresses = engine.inspect(container, "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}");
    let address = addresses.split(' ').next().expect("split yields at least one item");
    let url = format!("http://{address}:{HEALTH_PORT}/metrics");
    let response = reqwest::get(&url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    let text = response.text().await.unwrap_or_else(|error| panic!("{url}: {error}"));
    let is_placed = |line: &&str| line.starts_with(PLANS) && line.contains(r#"verdict="whole""#);
    let values = text.lines().filter(is_placed);
    values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Kills every container once while jobs are registered, and measures the time until a job is placed again.
async fn kill_each(project: &Project<'_>, engine: &Engine, registrar: &mut Registrar, timeline: Timeline) {
    let victims: Vec<String> = project.containers().into_keys().collect();
    let explain = || engine.log_tails(LOG_TAIL_LINES);
    let (mut slowest, mut slowest_victim) = (Duration::ZERO, "");
    for (at, victim) in victims.iter().enumerate() {
        // Half of the victim's share of the jobs is registered before the kill, half after it.
        let share = (JOBS - registrar.count()) / (victims.len() - at);
        let goal = registrar.count() + share;
        while registrar.count() < goal - share / 2 {
            registrar.register().await;
        }
        let crashes = restarts(engine, victim);
        engine.crash(victim);
        let killed = now();
        registrar.place(explain).await;
        let again = now() - killed;
        while registrar.count() < goal {
            registrar.register().await;
        }
        wait_until(
            &format!("{victim} is healthy again"),
            async || {
                let containers = project.containers();
                let is_healthy = containers.get(victim).is_some_and(|container| container.healthy);
                (is_healthy && restarts(engine, victim) > crashes).then_some(())
            },
            explain,
        )
        .await;
        timeline.note(&format!(
            "killed {victim}: placing again after {:.1} s, healthy after {:.1} s, {} jobs",
            again.as_secs_f64(),
            (now() - killed).as_secs_f64(),
            registrar.count()
        ));
        assert!(again <= PLACING_AGAIN, "after {victim} died it took {again:?} until a job was placed");
        if again > slowest {
            (slowest, slowest_victim) = (again, victim);
        }
    }
    assert!(registrar.count() >= JOBS);
    timeline.note(&format!(
        "{} containers were killed; the slowest was {slowest_victim}: {slowest:.1?}",
        victims.len()
    ));
}

/// How often the engine has restarted a container.
fn restarts(engine: &Engine, container: &str) -> u32 {
    engine.inspect(container, "{{.RestartCount}}").parse().expect("a count is a number")
}

/// Waits until both tasks of the example run.
async fn hello_runs(explain: impl Fn() -> String) {
    let api = Api::new(ADDRESS.to_owned());
    wait_until(
        "the example runs twice",
        async || {
            let allocs = api.try_get("/v1/job/hello/allocations").await.ok()?;
            let running =
                array(&allocs).iter().filter(|alloc| text(alloc, "ClientStatus") == "running").count();
            (running == 2).then_some(())
        },
        explain,
    )
    .await;
}
