//! Validation of templates, artifacts, dispatch payloads and Vault blocks. Destination paths must stay in the allocation's
//! directory (N-19.11, N-19.12).

use api_types::{DispatchPayloadConfig, Task, TaskArtifact, Template, Vault};
use model::text::quoted;

use crate::admission::fields::{flag, items, number, text};
use crate::admission::problems::Problems;

/// Checks the templates, artifacts, dispatch payload and Vault block of a task.
pub(crate) fn of_task(task: &Task, problems: &mut Problems) {
    for (position, template) in (1..).zip(items(&task.templates)) {
        problems.nest(format_args!("Template {position} validation failed: "), &self::template(template));
    }
    for (position, artifact) in (1..).zip(items(&task.artifacts)) {
        problems.nest(format_args!("Artifact {position} validation failed: "), &self::artifact(artifact));
    }
    if let Some(payload) = &task.dispatch_payload {
        problems.nest("Dispatch Payload validation failed: ", &self::payload(payload));
    }
    if let Some(vault) = &task.vault {
        problems.nest("Vault validation failed: ", &self::vault(vault));
    }
}

fn template(template: &Template) -> Problems {
    let mut problems = Problems::default();
    let (source, data) = (text(&template.source_path), text(&template.embedded_tmpl));
    problems.add_if(
        source.is_empty() && data.is_empty(),
        || "Must specify a source path or have an embedded template",
    );
    let destination = text(&template.dest_path);
    problems.add_if(destination.is_empty(), || "Must specify a destination for the template");
    check_destination(destination, &mut problems);
    let script = template.change_script.as_ref();
    match text(&template.change_mode) {
        "noop" | "restart" => {}
        "signal" => {
            problems.add_if(
                text(&template.change_signal).is_empty(),
                || "Must specify signal value when change mode is signal",
            );
            problems.add_if(flag(template.envvars), || "cannot use signals with env var templates");
        }
        "script" => problems.add_if(
            script.is_none_or(|script| text(&script.command).is_empty()),
            || "Must specify change script value when change mode is script",
        ),
        other => problems.add(format!(
            "Invalid change mode given: {}. Must be one of the following: noop, signal, script, restart",
            quoted(other)
        )),
    }
    problems.add_if(number(template.splay) < 0, || "Must specify positive splay value");
    let perms = text(&template.perms);
    problems.add_if(!perms.is_empty() && u32::from_str_radix(perms, 8).is_err(), || {
        format!("Failed to parse {} as octal", quoted(perms))
    });
    if let Some(wait) = &template.wait {
        let both = wait.min.zip(wait.max);
        problems.add_if(both.is_some_and(|(min, max)| min > max), || "wait min must not be greater than max");
    }
    problems
}

fn artifact(artifact: &TaskArtifact) -> Problems {
    let mut problems = Problems::default();
    problems.add_if(text(&artifact.getter_source).is_empty(), || "source must be specified");
    let mode = text(&artifact.getter_mode);
    problems.add_if(!matches!(mode, "" | "any" | "file" | "dir"), || {
        format!("invalid artifact mode {}; must be one of: any, file, dir", quoted(mode))
    });
    check_destination(text(&artifact.relative_dest), &mut problems);
    problems
}

fn payload(payload: &DispatchPayloadConfig) -> Problems {
    let mut problems = Problems::default();
    check_destination(text(&payload.file), &mut problems);
    problems
}

fn vault(vault: &Vault) -> Problems {
    let mut problems = Problems::default();
    match text(&vault.change_mode) {
        "signal" => problems.add_if(
            text(&vault.change_signal).is_empty(),
            || "Signal must be specified when using change mode \"signal\"",
        ),
        "" | "noop" | "restart" => {}
        other => problems.add(format!("Unknown change mode {}", quoted(other))),
    }
    problems
}

/// Adds a problem if a path leaves the allocation's directory. Paths begin in the task's directory, which is one level
/// below. A variable at the start of a path counts as one level; the node checks the path again once the variable is known.
fn check_destination(path: &str, problems: &mut Problems) {
    let mut depth = 1_usize;
    for part in path.trim_start_matches('/').split('/') {
        match part {
            "" | "." => {}
            ".." if depth == 0 => return problems.add("destination escapes allocation directory"),
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_allocation() {
        let escapes = |path: &str| {
            let mut problems = Problems::default();
            check_destination(path, &mut problems);
            !problems.is_empty()
        };
        for inside in ["local/x", "../alloc/x", "local/../../alloc", "/local/x", "${NOMAD_SECRETS_DIR}/x", ""]
        {
            assert!(!escapes(inside), "{inside}");
        }
        for outside in ["../../etc/passwd", "a/../../../x", "/../../x"] {
            assert!(escapes(outside), "{outside}");
        }
    }

    #[test]
    fn a_template_says_what_where_and_what_then() {
        let good = Template {
            embedded_tmpl: Some("x".to_owned()),
            dest_path: Some("local/x".to_owned()),
            change_mode: Some("restart".to_owned()),
            perms: Some("0644".to_owned()),
            ..Template::default()
        };
        let found = |template: Template| self::template(&template).into_vec();
        assert_eq!(found(good.clone()), [""; 0]);
        assert_eq!(found(Template { change_mode: Some("signal".to_owned()), ..good.clone() }).len(), 1);
        assert_eq!(found(Template { change_mode: Some("script".to_owned()), ..good.clone() }).len(), 1);
        assert_eq!(found(Template { perms: Some("rw".to_owned()), ..good.clone() }).len(), 1);
        assert_eq!(found(Template { dest_path: None, embedded_tmpl: None, ..good }).len(), 2);
    }
}
