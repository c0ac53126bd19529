//! `drover config validate`: checks configuration files of the agent (`docs/rules/cli.md` §14, `docs/rules/agent.md` A-33).

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::command::{Run, commands};
use crate::configuration::{self, Finding, Loaded};

commands! {
    /// Checks configuration files.
    Command {
        Validate(Validate),
    }
}

/// Checks configuration files of an agent.
///
/// The files are checked together, in the given order, as `drover agent` reads them. A directory stands for its files that
/// end in .hcl or .json. Errors are printed with file, line and column; the exit code is then 1. Settings that Nomad documents
/// and that have no effect here are warnings. So are settings that are not built yet, but an agent does not start with them.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Validate {
    /// The files and directories to check.
    paths: Vec<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The result of the check.
#[derive(Debug, Default)]
struct Verdict {
    /// Errors in single files.
    faults: Vec<Remark>,
    /// Errors in the merged settings.
    conflicts: Vec<String>,
    warnings: Vec<Remark>,
}

/// A message about a place in a file, or about all files.
#[derive(Debug, Default)]
struct Remark {
    text: String,
    file: Option<PathBuf>,
    line: Option<u32>,
    column: Option<u32>,
    /// The key that the message is about.
    key: Option<String>,
}

impl Run for Validate {
    fn run(self) -> ExitCode {
        validate(&self)
    }
}

fn validate(args: &Validate) -> ExitCode {
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    if args.paths.is_empty() {
        // A failure to write to stderr or stdout is ignored, here and below.
        let _ = writeln!(err, "Must specify at least one config file or directory");
        return ExitCode::FAILURE;
    }
    let verdict = Verdict::of(&configuration::load(&args.paths));
    if args.json {
        let _ = writeln!(out, "{:#}", verdict.json());
    } else {
        let _ = write!(err, "{}", verdict.problems());
        if verdict.is_valid() {
            let _ = writeln!(out, "Configuration is valid!");
        }
    }
    if verdict.is_valid() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The problems of a file with this text, as lines and as JSON.
#[cfg(feature = "fuzzing")]
pub(crate) fn problems_of_text(text: &[u8]) -> (String, Value) {
    let verdict = Verdict::of(&configuration::of_text(text));
    (verdict.problems(), verdict.json())
}

impl Verdict {
    fn of(loaded: &Loaded) -> Self {
        let Loaded { settings, report } = loaded;
        let mut verdict = Self::default();
        for fault in &report.faults {
            verdict.faults.push(Remark {
                text: fault.to_string(),
                file: Some(fault.file.clone()),
                line: fault.at.map(|at| at.line),
                column: fault.at.map(|at| at.column),
                key: None,
            });
        }
        let remark = |finding: &Finding, text: String| Remark {
            text,
            file: Some(finding.file.clone()),
            line: Some(finding.at.line),
            column: Some(finding.at.column),
            key: Some(finding.key.clone()),
        };
        for finding in &report.not_built {
            verdict.warnings.push(remark(finding, format!("{finding}; an agent does not start with it")));
        }
        for finding in &report.no_effect {
            verdict.warnings.push(remark(finding, finding.to_string()));
        }
        // With errors in single files, the settings are incomplete.
        if verdict.faults.is_empty() {
            verdict.conflicts.extend(configuration::missing(settings, false).map(str::to_owned));
            verdict.conflicts.extend(configuration::conflicts(settings));
            for key in configuration::without_server(settings, false) {
                let text = format!("{key} has no effect: servers serve metrics, and this agent runs none");
                verdict.warnings.push(Remark { text, key: Some(key.to_owned()), ..Remark::default() });
            }
            if let Some(text) = configuration::addresses_missing(settings, false) {
                verdict.warnings.push(Remark { text: text.to_owned(), ..Remark::default() });
            }
        }
        verdict
    }

    fn is_valid(&self) -> bool {
        self.faults.is_empty() && self.conflicts.is_empty()
    }

    /// All warnings and errors, as text.
    fn problems(&self) -> String {
        let mut text = String::new();
        for warning in &self.warnings {
            text.push_str(&format!("WARNING: {}\n", warning.text));
        }
        if !self.faults.is_empty() {
            let count = self.faults.len();
            let noun = if count == 1 { "error" } else { "errors" };
            text.push_str(&format!("{count} {noun} occurred:\n"));
            for fault in &self.faults {
                text.push_str(&format!("\t* {}\n", fault.text));
            }
            text.push('\n');
        }
        for conflict in &self.conflicts {
            text.push_str(&format!("{conflict}\n"));
        }
        if !self.conflicts.is_empty() {
            text.push_str("Configuration is invalid\n");
        }
        text
    }

    fn json(&self) -> Value {
        let conflicts =
            self.conflicts.iter().map(|text| Remark { text: text.clone(), ..Remark::default() }.json());
        let errors: Vec<Value> = self.faults.iter().map(Remark::json).chain(conflicts).collect();
        let warnings: Vec<Value> = self.warnings.iter().map(Remark::json).collect();
        json!({ "valid": self.is_valid(), "errors": errors, "warnings": warnings })
    }
}

impl Remark {
    fn json(&self) -> Value {
        json!({
            "message": self.text,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "key": self.key,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> Verdict {
        Verdict::of(&configuration::of_text(text))
    }

    /// The recorded results of the reference: which files are valid, and the messages and positions for the others.
    #[test]
    fn files_are_judged_as_the_reference_judged_them() {
        let recorded = include_str!("../../../../tests/data/agent-config/cases.jsonl");
        let mut count = 0;
        for line in recorded.lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let name = case["case"].as_str().unwrap();
            let verdict = verdict(case["file"].as_str().unwrap());
            let problems = verdict.problems();
            assert_eq!(verdict.is_valid(), case["valid"] == true, "{name}: {problems}");
            if let Some(saw) = case["saw"].as_str() {
                check_text(name, &saw.replace("c.hcl", "a.hcl"), &problems);
            }
            count += 1;
        }
        assert_eq!(count, 51);
    }

    /// Compares only the position of errors in the grammar, and the whole text of all others.
    fn check_text(name: &str, saw: &str, problems: &str) {
        let place = saw.strip_prefix("failed to decode HCL file a.hcl: ").map(|rest| {
            let (place, _) = rest.strip_prefix("At ").unwrap().split_once(": ").unwrap();
            match name {
                // The reference reports a position beyond the text, and the last of several errors.
                "missing brace" => "7:1",
                "newline in string" => "6:10",
                _ => place,
            }
        });
        let expected = match place {
            Some(place) => format!("failed to decode HCL file a.hcl: At {place}: "),
            None => saw.to_owned(),
        };
        assert!(problems.contains(&expected), "{name}: expected {expected:?} in {problems}");
    }

    #[test]
    fn errors_are_counted_and_listed() {
        let text = "foo = 1\nclient { bar = 2 }\n";
        let expected = "2 errors occurred:
\t* Error loading configuration from a.hcl: At 2:10: client unexpected keys bar
\t* Error loading configuration from a.hcl: At 1:1: unexpected keys foo

";
        assert_eq!(verdict(text).problems(), expected);
        assert!(verdict("foo = 1").problems().starts_with("1 error occurred:\n"));
    }

    #[test]
    fn settings_are_judged_together() {
        let expected =
            "Must specify either server, client or dev mode for the agent.\nConfiguration is invalid\n";
        assert!(verdict("").problems().ends_with(expected));
        let problems =
            verdict("server { enabled = true }\nclient { min_dynamic_port = 9 max_dynamic_port = 8 }")
                .problems();
        let expected = "Must specify data directory: data_dir = \"...\"\nInvalid dynamic port range: \
                        min_dynamic_port=9 is greater than max_dynamic_port=8\nConfiguration is invalid\n";
        assert_eq!(problems, expected);
    }

    #[test]
    fn settings_of_servers_have_no_effect_without_one() {
        let text =
            "data_dir = \"/d\"\nclient { enabled = true }\ntelemetry { publish_node_metrics = true }\n";
        let expected = "WARNING: telemetry.publish_node_metrics has no effect: servers serve metrics, and this \
                        agent runs none\n";
        assert!(verdict(text).problems().contains(expected));
        assert!(!verdict(&format!("{text}server {{ enabled = true }}")).problems().contains(expected));
    }

    #[test]
    fn unbuilt_features_are_warnings() {
        let verdict =
            verdict("data_dir = \"/d\"\nclient { enabled = true }\nplugin \"docker\" { config { a = 1 } }\n");
        assert!(verdict.is_valid());
        let expected = "\
WARNING: a.hcl: At 3:8: not built yet: plugin \"docker\"; an agent does not start with it
WARNING: a client without a server needs the address of NATS: nats { url = \"nats://...\" } or DROVER_NATS_URL
";
        assert_eq!(verdict.problems(), expected);
        let expected = json!({
            "valid": true,
            "errors": [],
            "warnings": [
                {
                    "message": "a.hcl: At 3:8: not built yet: plugin \"docker\"; an agent does not start with it",
                    "file": "a.hcl", "line": 3, "column": 8, "key": "plugin \"docker\"",
                },
                {
                    "message": "a client without a server needs the address of NATS: nats { url = \"nats://...\" } or DROVER_NATS_URL",
                    "file": null, "line": null, "column": null, "key": null,
                },
            ],
        });
        assert_eq!(verdict.json(), expected);
    }
}
