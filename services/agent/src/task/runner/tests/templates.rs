//! Tests of templates of tasks: what they wait for, and what follows a change.

use model::job::{ChangeMode, ChangeScript, TaskTemplate};
use model::service::{ServiceKey, ServiceRegistration};
use model::{AllocId, Index, NodeId};
use wire::directory::{FoundServices, QueryResult, ServiceQuery};
use wire::node::WorkIndex;
use wire::services::ServicesDigest;

use super::*;

/// A task with one template, which reads the service `db`.
struct Templated {
    scene: Scene,
}

const DATABASES: &str = r#"{{ range nomadService "db" }}{{ .Address }}:{{ .Port }};{{ end }}"#;

fn template(data: &str, change_mode: ChangeMode) -> TaskTemplate {
    TaskTemplate {
        embedded_tmpl: data.into(),
        dest_path: "local/db.conf".into(),
        change_mode: Some(change_mode),
        ..TaskTemplate::default()
    }
}

impl Templated {
    fn new(config: Value, template: TaskTemplate) -> Self {
        let Value::Object(config) = config else { unreachable!() };
        let task = Task { config: config.into_iter().collect(), templates: vec![template], ..task("web") };
        Self { scene: Scene::new(task, 0) }
    }

    /// The servers say that the service has one instance, with this port.
    fn set_port(&self, port: u16) {
        let key = ServiceKey { namespace: "default".into(), name: "db".into(), id: "a".into() };
        let registration = ServiceRegistration {
            key,
            node_id: NodeId::from_bytes([1; 16]),
            datacenter: "dc1".into(),
            job_id: "db".into(),
            alloc_id: AllocId::from_bytes([2; 16]),
            tags: Vec::new(),
            address: "10.0.0.1".into(),
            port,
            create_index: Index(1),
            modify_index: Index(1),
        };
        let result = QueryResult {
            query: ServiceQuery::Instances { namespace: "default".into(), name: "db".into() },
            digest: ServicesDigest::default(),
            instances: vec![Arc::new(registration)],
            names: Vec::new(),
            left_out: 0,
        };
        let answer = FoundServices { at: WorkIndex::default(), results: vec![result] };
        self.scene.context.services.directory.answered(answer, NOW);
    }

    /// Starts the runner, and answers what the template asks as soon as the template has asked.
    async fn begin_with(&self, port: u16) -> tokio::task::JoinHandle<()> {
        let runner = self.scene.begin(None);
        self.until_event("Template: Missing: nomad.service(db)").await;
        self.set_port(port);
        self.scene.until_running().await;
        runner
    }

    fn written(&self) -> String {
        let dirs = self.scene.context.dirs(self.scene.spec.borrow().id()).task("web");
        std::fs::read_to_string(dirs.local.join("db.conf")).unwrap_or_default()
    }

    async fn until_event(&self, event: &str) {
        eventually(event, || self.scene.events().iter().any(|seen| seen == event)).await;
    }
}

fn long() -> Value {
    json!({ "run_for": "10h" })
}

// A-17.2, A-17.4
#[tokio::test(start_paused = true)]
async fn a_task_starts_when_its_templates_have_their_data() {
    let templated = Templated::new(long(), template(DATABASES, ChangeMode::Noop));
    let runner = templated.scene.begin(None);
    templated.until_event("Template: Missing: nomad.service(db)").await;
    assert_eq!(templated.scene.state().state, TaskRunState::Pending);
    templated.set_port(5432);
    templated.scene.until_running().await;
    assert_eq!(templated.written(), "10.0.0.1:5432;");
    templated.set_port(5433);
    eventually("the file is written again", || templated.written() == "10.0.0.1:5433;").await;
    assert_eq!(templated.scene.state().restarts, 0, "noop changes nothing");
    templated.scene.end();
    runner.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_its_templates_can_be_ended() {
    let templated = Templated::new(long(), template(DATABASES, ChangeMode::Noop));
    let runner = templated.scene.begin(None);
    templated.until_event("Template: Missing: nomad.service(db)").await;
    templated.scene.end();
    runner.await.unwrap();
    assert_eq!(templated.scene.events().last().unwrap(), "Killed: Task successfully killed");
}

// A-17.5
#[tokio::test(start_paused = true)]
async fn a_changed_template_restarts_its_task() {
    let templated = Templated::new(long(), template(DATABASES, ChangeMode::Restart));
    let runner = templated.begin_with(1).await;
    templated.set_port(2);
    eventually("the task runs again", || {
        let state = templated.scene.state();
        state.restarts == 1 && state.state == TaskRunState::Running
    })
    .await;
    templated.until_event("Restart Signaled: Template with change_mode restart re-rendered").await;
    assert_eq!(templated.written(), "10.0.0.1:2;");
    templated.scene.end();
    runner.await.unwrap();
    assert_eq!(templated.scene.state().restarts, 1);
}

// A-17.5
#[tokio::test(start_paused = true)]
async fn a_changed_template_signals_its_task() {
    let signal = TaskTemplate { change_signal: "SIGUSR1".into(), ..template(DATABASES, ChangeMode::Signal) };
    let templated = Templated::new(long(), signal);
    let runner = templated.begin_with(1).await;
    templated.set_port(2);
    templated.until_event("Signaling: Task being sent signal SIGUSR1: Template re-rendered").await;
    assert_eq!(templated.scene.state().restarts, 0);
    templated.scene.end();
    runner.await.unwrap();
}

// A-17.5
#[tokio::test(start_paused = true)]
async fn a_change_script_that_must_not_fail_fails_its_task() {
    let script = ChangeScript {
        command: "reload".into(),
        timeout: Nanos::from_secs(5),
        fail_on_error: true,
        ..ChangeScript::default()
    };
    let script =
        TaskTemplate { change_script: Some(Box::new(script)), ..template(DATABASES, ChangeMode::Script) };
    let command = json!({ "exit_code": 3, "stdout_string": "no" });
    let templated = Templated::new(json!({ "run_for": "10h", "exec_command": command }), script);
    let runner = templated.begin_with(1).await;
    templated.set_port(2);
    runner.await.unwrap();
    assert!(templated.scene.state().failed);
    let events = templated.scene.events();
    assert!(
        events
            .iter()
            .any(|event| event == "Task hook message: Template change script reload failed: exit code 3"),
        "{events:?}"
    );
    assert_eq!(events.last().unwrap(), "Not Restarting: Template change script failed");
}

// A-15.1, A-17.3
#[tokio::test(start_paused = true)]
async fn a_template_adds_to_the_environment() {
    let template =
        TaskTemplate { envvars: true, ..template("KEY='from template'\nHOME=x", ChangeMode::Restart) };
    let templated = Templated::new(json!({ "run_for": "1s", "stdout_string": "${KEY} ${HOME}" }), template);
    templated.scene.begin(None).await.unwrap();
    assert!(templated.scene.state().successful(), "{:?}", templated.scene.events());
    let logs = templated.scene.context.dirs(templated.scene.spec.borrow().id()).shared.join("logs");
    assert_eq!(std::fs::read_to_string(logs.join("web.stdout.0")).unwrap(), "from template x");
}

#[tokio::test(start_paused = true)]
async fn a_template_that_fails_is_the_reason_that_its_task_does_not_start() {
    for (data, destination, event) in [
        (
            r#"{{ key "a" }}"#,
            "local/a",
            "Task hook failed: template: template \"local/a\": key: it needs Consul, which agents of this cluster do \
             not use",
        ),
        ("x", "../../x", "Failed Validation: template ../../x: Path escapes the alloc directory"),
    ] {
        let template = TaskTemplate { dest_path: destination.into(), ..template(data, ChangeMode::Noop) };
        let templated = Templated::new(long(), template);
        templated.scene.begin(None).await.unwrap();
        let events = templated.scene.events();
        assert!(events.iter().any(|seen| seen == event), "{events:?}");
        assert!(templated.scene.state().failed);
    }
}

/// An agent that restarts finds the files as they are, and follows their data again.
#[tokio::test(start_paused = true)]
async fn a_restarted_agent_changes_nothing_unless_the_data_has_changed() {
    let templated = Templated::new(long(), template(DATABASES, ChangeMode::Restart));
    let scene = &templated.scene;
    let first = templated.begin_with(1).await;
    let known = scene.state();
    first.abort();
    let _ = first.await;

    let second = scene.begin(Some(known));
    templated.set_port(2);
    eventually("the task runs again", || {
        let state = scene.state();
        state.restarts == 1 && state.state == TaskRunState::Running
    })
    .await;
    assert_eq!(templated.written(), "10.0.0.1:2;");
    scene.end();
    second.await.unwrap();
    assert_eq!(scene.state().restarts, 1);
}
