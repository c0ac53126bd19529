//! Validation of templates, artifacts, dispatch payloads and Vault blocks. Destination paths must stay in the allocation's
//! directory (N-19.11, N-19.12).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use api_types::{DispatchPayloadConfig, Task, TaskArtifact, Template, Vault};
use model::Nanos;
use model::text::quoted;

use crate::admission::fields::{flag, items, number, text};
use crate::admission::problems::Problems;

/// The option of an artifact with its checksum.
const CHECKSUM: &str = "checksum";
/// The beginning of a checksum that is in a file.
const CHECKSUM_FILE: &str = "file:";

/// Checks the templates, artifacts, dispatch payload and Vault block of a task.
pub(crate) fn of_task(task: &Task, problems: &mut Problems) {
    let mut destinations: BTreeMap<&str, usize> = BTreeMap::new();
    for (position, template) in (1..).zip(items(&task.templates)) {
        problems.nest(format_args!("Template {position} validation failed: "), &self::template(template));
        match destinations.entry(text(&template.dest_path)) {
            Entry::Vacant(free) => {
                free.insert(position);
            }
            Entry::Occupied(taken) => {
                let first = taken.get();
                problems.add_if(true, || format!("Template {position} has same destination as {first}"));
            }
        }
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
    match text(&template.change_mode) {
        "noop" | "restart" => {}
        // The signal may be missing.
        "signal" => {
            problems.add_if(flag(template.envvars), || "cannot use signals with env var templates");
        }
        "script" => match &template.change_script {
            None => {
                problems.add("must specify change script configuration value when change mode is script");
            }
            Some(script) => problems.add_if(
                text(&script.command).is_empty(),
                || "must specify script path value when change mode is script",
            ),
        },
        _ => problems.add("Invalid change mode. Must be one of the following: noop, signal, script, restart"),
    }
    problems.add_if(number(template.splay) < 0, || "Must specify positive splay value");
    let perms = text(&template.perms);
    problems.add_if(!perms.is_empty() && u32::from_str_radix(perms, 8).is_err(), || {
        let perms = quoted(perms);
        format!("Failed to parse {perms} as octal: strconv.ParseUint: parsing {perms}: invalid syntax")
    });
    if let Some(wait) = &template.wait
        && let (Some(min), Some(max)) = (wait.min, wait.max)
    {
        problems.add_if(min > max, || format!("wait min {} is greater than max {}", Nanos(min), Nanos(max)));
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
    let checksum = artifact.getter_options.as_ref().and_then(|options| options.get(CHECKSUM));
    if let Some(checksum) = checksum {
        check_checksum(checksum, &mut problems);
    }
    problems
}

/// Checks the checksum of an artifact, unless its variables are still to be filled in: a type, and digits.
fn check_checksum(checksum: &str, problems: &mut Problems) {
    let checksum = checksum.trim();
    // A file of checksums is looked at by the node.
    if checksum.contains("${") || checksum.starts_with(CHECKSUM_FILE) {
        return;
    }
    let parts = checksum.split_once(':').filter(|(_, value)| !value.contains(':'));
    let Some((_, value)) = parts else {
        problems.add(format!("checksum must be given as \"type:value\"; got {}", quoted(checksum)));
        return;
    };
    if let Some(char) = value.chars().find(|char| !char.is_ascii_hexdigit()) {
        let code = u32::from(char);
        problems.add(format!("invalid checksum: encoding/hex: invalid byte: U+{code:04X} '{char}'"));
    }
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
        assert_eq!(found(Template { change_mode: Some("signal".to_owned()), ..good.clone() }), [""; 0]);
        assert_eq!(found(Template { change_mode: Some("script".to_owned()), ..good.clone() }).len(), 1);
        assert_eq!(found(Template { perms: Some("rw".to_owned()), ..good.clone() }).len(), 1);
        assert_eq!(found(Template { dest_path: None, embedded_tmpl: None, ..good }).len(), 2);
    }
}
