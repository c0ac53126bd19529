//! Rules for which Drover differs from the recorded behaviour, because the spec asks for other behaviour: for each
//! rule, the parts of a case that may differ. All other parts must agree.

use crate::recorded::Case;

/// The parts of a case that may differ because of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemption {
    /// The rule of `docs/rules/scheduling.md`.
    pub rule: &'static str,
    /// Whether other nodes and preempted allocations are accepted. The case is then compared as one with
    /// `compare.nodes` `any`.
    pub nodes: bool,
    /// Members that may differ, as `plans/<member>`, `update/<member>`, `creates` or `metrics`.
    pub members: &'static [&'static str],
}

/// All rules with exemptions. The comment on each states our behaviour.
pub const EXEMPTIONS: &[Exemption] = &[
    // A delayed evaluation creates the follow-ups that it needs itself.
    Exemption { rule: "R-1.68", nodes: false, members: &["plans/updates", "update/next_eval", "creates"] },
    // A class depends on every attribute that constraints can see.
    Exemption { rule: "R-4.7", nodes: true, members: &["update/failed_tg_allocs", "creates"] },
    // All volume claims remain open during the whole placement.
    Exemption {
        rule: "R-5.33",
        nodes: true,
        members: &[
            "plans/placements",
            "update/failed_tg_allocs",
            "update/queued",
            "update/blocked_eval",
            "creates",
        ],
    },
    // Volumes that belong to one allocation are counted, too.
    Exemption {
        rule: "R-5.36",
        nodes: true,
        members: &[
            "plans/placements",
            "update/failed_tg_allocs",
            "update/queued",
            "update/blocked_eval",
            "creates",
        ],
    },
    // Only allocations of the job's own namespace count.
    Exemption { rule: "R-6.22", nodes: true, members: &[] },
    // Weights are relative to the group's own spreads.
    Exemption { rule: "R-6.29", nodes: true, members: &[] },
    // The minimum of the counts includes zeros.
    Exemption { rule: "R-6.32", nodes: true, members: &[] },
    // Each group has its own limit.
    Exemption { rule: "R-6.35", nodes: true, members: &[] },
    // The group waits until its time has come.
    Exemption {
        rule: "R-7.51",
        nodes: true,
        members: &["plans", "update/annotations", "update/queued", "creates"],
    },
    // A request to reschedule does not end a running allocation.
    Exemption { rule: "R-7.54", nodes: true, members: &["plans", "update/annotations", "update/queued"] },
    // A reschedule tracker without events uses up no attempts.
    Exemption {
        rule: "R-7.56",
        nodes: true,
        members: &["plans", "update/annotations", "update/queued", "update/next_eval", "creates"],
    },
    // A stopped allocation is neither written again nor waited for.
    Exemption {
        rule: "R-7.59",
        nodes: false,
        members: &["plans/updates", "plans/stops", "update/annotations", "update/next_eval", "creates"],
    },
    // An allocation shares its name with a canary rather than with another allocation.
    Exemption { rule: "R-7.63", nodes: false, members: &["plans/placements"] },
    // A failed allocation is not rescheduled if the group has its count without it.
    Exemption {
        rule: "R-7.72",
        nodes: true,
        members: &[
            "plans/placements",
            "plans/stops",
            "plans/deployment",
            "update/annotations",
            "update/queued",
        ],
    },
    // Each rescheduled allocation is placed once.
    Exemption {
        rule: "R-7.74",
        nodes: true,
        members: &["plans/placements", "update/annotations", "update/queued"],
    },
    // The old and the new duration are compared.
    Exemption { rule: "R-7.80", nodes: true, members: &["plans", "update/annotations", "update/queued"] },
    // A placement of an older version does not give its deployment to those after it.
    Exemption { rule: "R-7.101", nodes: true, members: &[] },
    // An allocation whose reschedule found no place keeps its version of the job.
    Exemption { rule: "R-7.107", nodes: false, members: &["plans/updates"] },
    // A job that was purged is stopped, whether or not a deployment was left over.
    Exemption { rule: "R-8.4", nodes: false, members: &["plans", "update", "error"] },
    // A deployment that failed or was cancelled does not keep a newer version from having one.
    Exemption {
        rule: "R-8.27",
        nodes: false,
        members: &[
            "plans/deployment",
            "plans/deployment_updates",
            "plans/placements",
            "plans/updates",
            "update/deployment",
        ],
    },
    // Canaries are subtracted once, and removed canaries are not queued.
    Exemption { rule: "R-8.34", nodes: true, members: &["plans", "update/annotations", "update/queued"] },
    // A deployment that did not change is not repeated.
    Exemption { rule: "R-8.36", nodes: false, members: &["plans/deployment", "plans/deployment_updates"] },
    // Counts do not become negative.
    Exemption { rule: "R-8.39", nodes: false, members: &["update/annotations"] },
    // Preemptions that are already staged are counted.
    Exemption { rule: "R-9.6", nodes: true, members: &[] },
    // The job's own allocations are subtracted.
    Exemption {
        rule: "R-9.7",
        nodes: true,
        members: &[
            "plans/placements",
            "update/failed_tg_allocs",
            "update/queued",
            "update/annotations",
            "update/blocked_eval",
            "creates",
        ],
    },
    // Ports that were offered to the group before remain taken.
    Exemption {
        rule: "R-9.16",
        nodes: true,
        members: &[
            "plans/placements",
            "update/failed_tg_allocs",
            "update/queued",
            "update/annotations",
            "update/blocked_eval",
            "creates",
        ],
    },
    // Devices that were offered to earlier requests remain taken.
    Exemption {
        rule: "R-9.21",
        nodes: true,
        members: &[
            "plans/placements",
            "update/failed_tg_allocs",
            "update/queued",
            "update/annotations",
            "update/blocked_eval",
            "creates",
        ],
    },
];

/// Returns the exemptions of a case. The error names a rule that is not in the table.
pub(super) fn exemptions(case: &Case) -> Result<Vec<Exemption>, String> {
    let rules = case.json["quirk"].as_str().unwrap_or_default();
    let named = rules.split(',').map(str::trim).filter(|rule| !rule.is_empty());
    let find = |rule: &str| {
        EXEMPTIONS.iter().find(|exempt| exempt.rule == rule).copied().ok_or_else(|| rule.to_owned())
    };
    named.map(find).collect()
}
