//! What to do with one template: where it comes from and goes to, and what follows a change. Pure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::job::{ChangeMode, TaskTemplate};
use model::text::quoted;
use model::{Nanos, Text};

use crate::driver::read_signal;
use crate::node::facts::NodeFacts;
use crate::node::templates::{TemplateSettings, Wait};
use crate::task::env::Env;
use crate::task::hooks::places;
use crate::task::interpolation::Interpolator;
use crate::wait::to_std;

/// The permissions of a file whose template names none.
const DEFAULT_PERMS: u32 = 0o644;
/// The signal of a template that names none.
const DEFAULT_SIGNAL: &str = "SIGHUP";
/// The bits of permissions that a job can set. A set-uid file of the agent's user would give a task the agent's rights.
const PERMS_MASK: u32 = 0o777;

/// What to do with one template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Where its text comes from.
    pub(super) source: Source,
    /// The file that is written, relative to the allocation's directory.
    pub(super) destination: PathBuf,
    /// The destination as the job writes it, for messages.
    pub(super) shown: String,
    /// The delimiters.
    pub(super) delimiters: (Text, Text),
    /// Whether a missing key is an error.
    pub(super) error_on_missing_key: bool,
    /// The permissions of the file.
    pub(super) perms: u32,
    /// The owner of the file, by user id; `None` is the agent's.
    pub(super) uid: Option<u32>,
    /// The group of the file, by its id; `None` is the agent's.
    pub(super) gid: Option<u32>,
    /// Whether the result is also read as environment variables.
    pub(super) env: bool,
    /// Whether later changes are ignored.
    pub(super) once: bool,
    /// What follows a change.
    pub(super) mode: Mode,
    /// The longest delay before a change is acted upon.
    pub(super) splay: Duration,
    /// The wait for values to settle.
    pub(super) wait: Wait,
}

/// Where the text of a template comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// The job has it.
    Inline(Text),
    /// A file, relative to the allocation's directory.
    Allocation(PathBuf),
    /// A file of the node.
    Node(PathBuf),
}

/// What follows a change of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing.
    Noop,
    /// The task is restarted.
    Restart,
    /// The task gets the signal of this name.
    Signal(String),
    /// A program runs in the task.
    Script(Script),
}

/// A program that runs in the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Script {
    /// The program with its arguments.
    pub(super) command: Vec<String>,
    /// The time after which it is ended.
    pub(super) timeout: Duration,
    /// Whether its failure fails the task.
    pub(super) fail_on_error: bool,
    /// Whether it also runs after the first rendering.
    pub(super) on_first_render: bool,
}

/// The task that templates belong to.
pub(super) struct Owner<'a> {
    /// The task's name.
    pub(super) task: &'a str,
    /// The environment that paths refer to.
    pub(super) env: &'a Env,
    /// The node that paths refer to.
    pub(super) node: &'a NodeFacts,
    /// The operator's settings.
    pub(super) settings: &'a TemplateSettings,
}

impl Plan {
    /// Reads a template of a job.
    ///
    /// # Errors
    /// If a value is not valid, or a path leads out of the allocation's directory.
    pub(super) fn new(template: &TaskTemplate, owner: &Owner<'_>) -> Result<Self, String> {
        let mut names = Interpolator::new(owner.node);
        let mut fill = |text: &str| names.fill(text, owner.env).map_err(|error| error.to_string());
        let destination = fill(&template.dest_path)?;
        let place = owner.place(&destination)?;
        let source = if template.source_path.is_empty() {
            Source::Inline(template.embedded_tmpl.clone())
        } else {
            owner.source(&fill(&template.source_path)?)?
        };
        let delimiter =
            |text: &Text, default: &str| if text.is_empty() { default.into() } else { text.clone() };
        let wait = template.wait.as_ref();
        let duration = |nanos: Option<Nanos>| nanos.map(to_std);
        Ok(Self {
            source,
            destination: place,
            shown: destination,
            delimiters: (delimiter(&template.left_delim, "{{"), delimiter(&template.right_delim, "}}")),
            error_on_missing_key: template.err_missing_key,
            perms: permissions(&template.perms)?,
            uid: template.uid.and_then(|id| u32::try_from(id).ok()),
            gid: template.gid.and_then(|id| u32::try_from(id).ok()),
            env: template.envvars,
            once: template.once,
            mode: mode(template)?,
            splay: to_std(template.splay),
            wait: owner
                .settings
                .wait(duration(wait.and_then(|wait| wait.min)), duration(wait.and_then(|wait| wait.max))),
        })
    }
}

impl Owner<'_> {
    /// The file that a path of the job means, relative to the allocation's directory.
    pub(super) fn place(&self, path: &str) -> Result<PathBuf, String> {
        places::place(self.task, self.env, path)
    }

    fn source(&self, path: &str) -> Result<Source, String> {
        if self.settings.disable_file_sandbox && Path::new(path).is_absolute() {
            return Ok(Source::Node(PathBuf::from(path)));
        }
        self.place(path).map(Source::Allocation)
    }
}

fn permissions(perms: &str) -> Result<u32, String> {
    if perms.is_empty() {
        return Ok(DEFAULT_PERMS);
    }
    let bits = u32::from_str_radix(perms, 8);
    bits.map(|bits| bits & PERMS_MASK).map_err(|_| format!("permissions {} are not octal", quoted(perms)))
}

fn mode(template: &TaskTemplate) -> Result<Mode, String> {
    Ok(match template.change_mode {
        Some(ChangeMode::Noop) => Mode::Noop,
        Some(ChangeMode::Restart) | None => Mode::Restart,
        Some(ChangeMode::Signal) => {
            let name: &str =
                if template.change_signal.is_empty() { DEFAULT_SIGNAL } else { &template.change_signal };
            let signal = read_signal(name)?.ok_or("no signal is named")?;
            Mode::Signal(signal.as_str().to_owned())
        }
        Some(ChangeMode::Script) => {
            let script = template.change_script.as_ref().filter(|script| !script.command.is_empty());
            let script = script.ok_or("no command is named for the change mode script")?;
            let command = std::iter::once(&script.command).chain(&script.args);
            Mode::Script(Script {
                command: command.map(Text::to_string).collect(),
                timeout: to_std(script.timeout),
                fail_on_error: script.fail_on_error,
                on_first_render: script.run_on_first_render,
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use model::job::ChangeScript;

    use super::*;
    use crate::task::hooks::places::ESCAPES;

    fn read(template: &TaskTemplate) -> Result<Plan, String> {
        let env: Env = [
            ("NOMAD_ALLOC_DIR", "/alloc"),
            ("NOMAD_TASK_DIR", "/local"),
            ("NOMAD_SECRETS_DIR", "/secrets"),
            ("FILE", "app.conf"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let (node, settings) = (NodeFacts::default(), TemplateSettings::default());
        Plan::new(template, &Owner { task: "web", env: &env, node: &node, settings: &settings })
    }

    fn to(destination: &str) -> TaskTemplate {
        TaskTemplate { dest_path: destination.into(), embedded_tmpl: "x".into(), ..TaskTemplate::default() }
    }

    //
    #[test]
    fn destinations_stay_in_the_directory_of_the_allocation() {
        for (destination, place) in [
            ("local/a", "web/local/a"),
            ("/local/a", "web/local/a"),
            ("/secrets/b/c", "web/secrets/b/c"),
            ("${NOMAD_ALLOC_DIR}/data/d", "alloc/data/d"),
            ("${NOMAD_TASK_DIR}/${FILE}", "web/local/app.conf"),
            ("/etc/app.conf", "web/etc/app.conf"),
            ("../alloc/data/e", "alloc/data/e"),
            ("./x/../y", "web/y"),
        ] {
            assert_eq!(read(&to(destination)).unwrap().destination, Path::new(place), "{destination}");
        }
        for destination in ["", "..", "../..", "../../x", "/alloc/../..", "local/../../../x"] {
            assert_eq!(read(&to(destination)), Err(ESCAPES.to_owned()), "{destination}");
        }
    }

    // N-18.11
    #[test]
    fn what_a_template_leaves_out_has_a_default() {
        let plan = read(&to("a")).unwrap();
        assert_eq!((plan.perms, plan.uid, plan.mode), (0o644, None, Mode::Restart));
        assert_eq!(plan.delimiters, ("{{".into(), "}}".into()));
        assert_eq!(plan.source, Source::Inline("x".into()));
        let owned = TaskTemplate { uid: Some(-1), gid: Some(7), perms: "600".into(), ..to("a") };
        let plan = read(&owned).unwrap();
        assert_eq!((plan.perms, plan.uid, plan.gid), (0o600, None, Some(7)));
        assert_eq!(read(&TaskTemplate { perms: "4755".into(), ..to("a") }).unwrap().perms, 0o755);
        assert!(read(&TaskTemplate { perms: "rw".into(), ..to("a") }).is_err());
    }

    #[test]
    fn a_change_is_followed_by_what_the_job_says() {
        let mode_of = |template: TaskTemplate| read(&template).map(|plan| plan.mode);
        let signal = TaskTemplate { change_mode: Some(ChangeMode::Signal), ..to("a") };
        assert_eq!(mode_of(signal.clone()), Ok(Mode::Signal("SIGHUP".to_owned())));
        let named = TaskTemplate { change_signal: "usr1".into(), ..signal.clone() };
        assert_eq!(mode_of(named), Ok(Mode::Signal("SIGUSR1".to_owned())));
        assert!(mode_of(TaskTemplate { change_signal: "SIGWHAT".into(), ..signal }).is_err());
        let script = TaskTemplate { change_mode: Some(ChangeMode::Script), ..to("a") };
        assert!(mode_of(script.clone()).is_err());
        let change_script = ChangeScript {
            command: "/bin/reload".into(),
            args: vec!["-x".into()],
            timeout: Nanos::from_secs(5),
            ..ChangeScript::default()
        };
        let expected = Script {
            command: vec!["/bin/reload".to_owned(), "-x".to_owned()],
            timeout: Duration::from_secs(5),
            fail_on_error: false,
            on_first_render: false,
        };
        let script = TaskTemplate { change_script: Some(Box::new(change_script)), ..script };
        assert_eq!(mode_of(script), Ok(Mode::Script(expected)));
    }
}
