//! Validation of periodic and parameterized jobs (N-19.18).

use std::collections::BTreeSet;

use api_types::{Job, ParameterizedJobConfig, PeriodicConfig};
use model::job::JobType;
use model::schedule::{check_cron, is_time_zone};
use model::text::quoted;

use crate::admission::fields::{items, text};
use crate::admission::problems::Problems;

/// Checks the `periodic` and `parameterized` blocks of a job.
pub(crate) fn schedule(job: &Job, kind: Option<JobType>, problems: &mut Problems) {
    let is_batch = matches!(kind, Some(JobType::Batch | JobType::SysBatch) | None);
    let only = |what: &str| format!("{what} can only be used with \"batch\" or \"sysbatch\" scheduler");
    if let Some(periodic) = &job.periodic {
        problems.add_if(!is_batch, || only("Periodic"));
        if is_batch {
            problems.nest("", &self::periodic(periodic));
        }
    }
    if let Some(parameterized) = &job.parameterized_job {
        problems.add_if(!is_batch, || only("Parameterized job"));
        if is_batch {
            problems.nest("", &self::parameterized(parameterized));
        }
    }
}

fn periodic(periodic: &PeriodicConfig) -> Problems {
    let mut problems = Problems::default();
    if periodic.enabled == Some(false) {
        return problems;
    }
    let (one, several) = (text(&periodic.spec), items(&periodic.specs));
    problems.add_if(one.is_empty() && several.is_empty(), || "Must specify a spec");
    problems.add_if(!one.is_empty() && !several.is_empty(), || "Only cron or crons may be used");
    match text(&periodic.spec_type) {
        "" | "cron" => {
            let one = [one].into_iter().filter(|spec| !spec.is_empty());
            for spec in one.chain(several.iter().map(String::as_str)) {
                if let Err(reason) = check_cron(spec) {
                    problems.add(format!("Invalid cron spec {}: {reason}", quoted(spec)));
                }
            }
        }
        other => problems.add(format!("Unknown periodic specification type {}", quoted(other))),
    }
    let zone = text(&periodic.time_zone);
    problems.add_if(!is_time_zone(zone), || {
        format!("Invalid time zone {}: unknown time zone {zone}", quoted(zone))
    });
    problems
}

fn parameterized(parameterized: &ParameterizedJobConfig) -> Problems {
    let mut problems = Problems::default();
    let payload = text(&parameterized.payload);
    problems.add_if(!matches!(payload, "optional" | "required" | "forbidden"), || {
        format!("Unknown payload requirement: {}", quoted(payload))
    });
    let required: BTreeSet<&String> = items(&parameterized.meta_required).iter().collect();
    let optional: BTreeSet<&String> = items(&parameterized.meta_optional).iter().collect();
    let both: Vec<&str> = required.intersection(&optional).map(|key| key.as_str()).collect();
    problems.add_if(!both.is_empty(), || {
        let both = both.join(" ");
        format!("Required and optional meta keys should be disjoint. Following keys exist in both: [{both}]")
    });
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_names_that_everybody_knows() {
        let in_zone = |zone: &str| PeriodicConfig {
            spec: Some("@daily".to_owned()),
            time_zone: Some(zone.to_owned()),
            ..PeriodicConfig::default()
        };
        assert!(periodic(&in_zone("Europe/Vienna")).is_empty());
        assert!(periodic(&in_zone("")).is_empty());
        assert!(!periodic(&in_zone("Europe/Atlantis")).is_empty());
    }
}
