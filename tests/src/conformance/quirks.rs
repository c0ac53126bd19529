//! Where the records show what the reference does and the spec says that we do otherwise: what of such a case is free, by
//! the number of the rule. What is not named here must agree.

use crate::recorded::Case;

/// What a rule sets free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    /// The rule of `spec/scheduling.md`.
    pub rule: &'static str,
    /// Whether nodes and victims may be others: then the case is compared as one with `compare.nodes` `any`.
    pub nodes: bool,
    /// Members that may differ, as `plans/<member>`, `update/<member>`, `creates` or `metrics`.
    pub members: &'static [&'static str],
}

/// The rules.
pub const FREED: &[Freed] = &[
    // Classes count every attribute that constraints can see.
    Freed { rule: "R-4.7", nodes: true, members: &["update/failed_tg_allocs", "creates"] },
    // All claims stay open for the whole placement.
    Freed {
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
    // Volumes of one allocation each count, too.
    Freed {
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
    // Weights are relative to the group's own spreads.
    Freed { rule: "R-6.29", nodes: true, members: &[] },
    // The least count is the least, zeros included.
    Freed { rule: "R-6.32", nodes: true, members: &[] },
    // The limit of a group is its own.
    Freed { rule: "R-6.35", nodes: true, members: &[] },
    // The group waits until the moment is due.
    Freed {
        rule: "R-7.51",
        nodes: true,
        members: &["plans/placements", "update/annotations", "update/queued", "creates"],
    },
    // A tracker without events uses up no attempts.
    Freed {
        rule: "R-7.56",
        nodes: true,
        members: &["plans", "update/annotations", "update/queued", "update/next_eval", "creates"],
    },
    // What stops is neither written again nor waited for.
    Freed {
        rule: "R-7.59",
        nodes: false,
        members: &["plans/updates", "plans/stops", "update/annotations", "update/next_eval", "creates"],
    },
    // Each reschedule is placed once.
    Freed {
        rule: "R-7.74",
        nodes: true,
        members: &["plans/placements", "update/annotations", "update/queued"],
    },
    // Old and new duration are compared.
    Freed { rule: "R-7.80", nodes: true, members: &["plans", "update/annotations", "update/queued"] },
    // Canaries are subtracted once, and removed ones are not queued.
    Freed { rule: "R-8.34", nodes: true, members: &["plans", "update/annotations", "update/queued"] },
    // A deployment that did not change is not told again.
    Freed { rule: "R-8.36", nodes: false, members: &["plans/deployment", "plans/deployment_updates"] },
    // Counts do not fall below nothing.
    Freed { rule: "R-8.39", nodes: false, members: &["update/annotations"] },
    // Victims that are staged already count.
    Freed { rule: "R-9.6", nodes: true, members: &[] },
    // The job's own allocations are subtracted.
    Freed {
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
    // Devices offered to earlier requests stay taken.
    Freed {
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

/// What is free in a case; an error names a rule that is not in the table.
pub(super) fn freed(case: &Case) -> Result<Vec<Freed>, String> {
    let rules = case.json["quirk"].as_str().unwrap_or_default();
    let named = rules.split(',').map(str::trim).filter(|rule| !rule.is_empty());
    let find =
        |rule: &str| FREED.iter().find(|freed| freed.rule == rule).copied().ok_or_else(|| rule.to_owned());
    named.map(find).collect()
}
