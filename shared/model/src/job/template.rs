//! Files that are rendered for a task from templates.

use crate::mirror::{boxed_members, encoded_as_api, mirror, text_members};
use crate::text::string_enum;
use crate::{Nanos, Text};

string_enum! {
    /// What happens to a task when something that was given to it changes: a rendered file, an identity, a Vault token.
    ChangeMode, "change mode" {
        /// It is restarted.
        Restart => "restart",
        /// It gets a signal.
        Signal => "signal",
        /// A program runs in it; of templates only.
        Script => "script",
        /// Nothing.
        Noop => "noop",
    }
}

text_members!(ChangeMode);
boxed_members!(ChangeScript);
encoded_as_api!(TaskTemplate, ChangeScript, TemplateWait);

/// A file that is rendered for a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskTemplate {
    /// File with the template; empty if the template is embedded.
    pub source_path: Text,
    /// File to write, relative to the task's directory.
    pub dest_path: Text,
    /// Text of the template.
    pub embedded_tmpl: Text,
    /// What happens after a change.
    pub change_mode: Option<ChangeMode>,
    /// The signal, if a change sends one.
    pub change_signal: Text,
    /// The program, if a change runs one.
    pub change_script: Option<Box<ChangeScript>>,
    /// Whether later changes are ignored.
    pub once: bool,
    /// Longest random delay before a change is acted upon.
    pub splay: Nanos,
    /// Octal file mode.
    pub perms: Text,
    /// Owner of the file by user id; `None` is the agent's.
    pub uid: Option<i64>,
    /// Owner of the file by group id; `None` is the agent's.
    pub gid: Option<i64>,
    /// Delimiter that begins an expression.
    pub left_delim: Text,
    /// Delimiter that ends an expression.
    pub right_delim: Text,
    /// Whether the result is also read as environment variables.
    pub envvars: bool,
    /// Obsolete and without effect.
    pub vault_grace: Nanos,
    /// Wait for values to settle.
    pub wait: Option<TemplateWait>,
    /// Whether a missing key is an error.
    pub err_missing_key: bool,
}

mirror! {
    TaskTemplate = Template {
        source_path: "SourcePath",
        dest_path: "DestPath",
        embedded_tmpl: "EmbeddedTmpl",
        change_mode: "ChangeMode",
        change_signal: "ChangeSignal",
        change_script: "ChangeScript",
        once: "Once",
        splay: "Splay",
        perms: "Perms",
        uid: "Uid",
        gid: "Gid",
        left_delim: "LeftDelim",
        right_delim: "RightDelim",
        envvars: "Envvars",
        vault_grace: "VaultGrace",
        wait: "Wait",
        err_missing_key: "ErrMissingKey",
    }
}

/// A program that runs in the task after a template has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeScript {
    /// Path of the program in the task.
    pub command: Text,
    /// Its arguments.
    pub args: Vec<Text>,
    /// Time after which it is killed.
    pub timeout: Nanos,
    /// Whether its failure kills the task.
    pub fail_on_error: bool,
    /// Whether it also runs after the first rendering.
    pub run_on_first_render: bool,
}

mirror! {
    ChangeScript = ChangeScript {
        command: "Command",
        timeout: "Timeout",
        fail_on_error: "FailOnError",
        run_on_first_render: "RunOnFirstRender",
    }
    always_present { args: "Args" }
}

/// Shortest and longest wait for values to settle; `None` is the agent's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateWait {
    /// Time without a change before rendering.
    pub min: Option<Nanos>,
    /// Time after which rendering happens anyway.
    pub max: Option<Nanos>,
}

mirror! {
    TemplateWait = WaitConfig { min: "Min", max: "Max" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::Mirror as _;

    #[test]
    fn a_template_reads_as_it_was_registered() {
        let template = TaskTemplate {
            embedded_tmpl: "a".into(),
            change_mode: Some(ChangeMode::Script),
            change_script: Some(Box::new(ChangeScript {
                command: "/bin/true".into(),
                ..ChangeScript::default()
            })),
            uid: Some(-1),
            wait: Some(TemplateWait { min: Some(Nanos::ZERO), max: None }),
            ..TaskTemplate::default()
        };
        let api = template.to_api();
        assert_eq!(api.change_script.as_ref().unwrap().args, Some(Vec::new()));
        assert_eq!(TaskTemplate::from_api(api.clone()).unwrap(), template);
        let encoded = rmp_serde::to_vec_named(&api).unwrap();
        assert_eq!(rmp_serde::to_vec_named(&template).unwrap(), encoded);
        assert_eq!(rmp_serde::from_slice::<TaskTemplate>(&encoded).unwrap(), template);
    }

    #[test]
    fn an_unknown_change_mode_is_refused() {
        let api = api_types::Template { change_mode: Some("explode".to_owned()), ..Default::default() };
        let refusal = TaskTemplate::from_api(api).unwrap_err().to_string();
        assert!(refusal.starts_with("ChangeMode: "), "{refusal}");
    }
}
