//! Tables that commands of several groups print: of evaluations, of allocations, and of the groups of a deployment.

use api_types::{AllocListStub, Deployment, Evaluation};

use super::format;
use super::page::Page;
use super::reasons::has_failures;

/// A table of evaluations, the newest first.
pub(crate) fn evals(page: &mut Page, evals: &[Evaluation], verbose: bool) {
    let mut evals: Vec<&Evaluation> = evals.iter().collect();
    evals.sort_by_key(|eval| (std::cmp::Reverse(eval.create_index), eval.id.clone()));
    let rows = evals.into_iter().map(|eval| {
        [
            format::id(eval.id.as_ref(), verbose),
            format::number(eval.priority),
            format::text(eval.triggered_by.as_ref()),
            format::text(eval.status.as_ref()),
            placement_failures(eval),
        ]
    });
    page.table(&["ID", "Priority", "Triggered By", "Status", "Placement Failures"], rows);
}

/// Whether an evaluation could not place everything, once it is known (`docs/rules/cli.md` 4.6).
pub(crate) fn placement_failures(eval: &Evaluation) -> String {
    match eval.status.as_deref() {
        Some("blocked" | "pending") => "N/A - In Progress".to_owned(),
        _ => has_failures(eval).to_string(),
    }
}

/// A table of allocations, the newest first.
pub(crate) fn allocs(page: &mut Page, allocs: &[AllocListStub], now: i64, verbose: bool) {
    if allocs.is_empty() {
        return page.line("No allocations placed");
    }
    let mut allocs: Vec<&AllocListStub> = allocs.iter().collect();
    allocs.sort_by_key(|alloc| (std::cmp::Reverse(alloc.create_index), alloc.id.clone()));
    let row = |alloc: &&AllocListStub| {
        [
            format::id(alloc.id.as_ref(), verbose),
            format::id(alloc.node_id.as_ref(), verbose),
            format::text(alloc.task_group.as_ref()),
            alloc.job_version.unwrap_or_default().to_string(),
            format::text(alloc.desired_status.as_ref()),
            format::text(alloc.client_status.as_ref()),
            format::ago(alloc.create_time.unwrap_or_default(), now, verbose),
            format::ago(alloc.modify_time.unwrap_or_default(), now, verbose),
        ]
    };
    if !verbose {
        let header = ["ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Created", "Modified"];
        return page.table(&header, allocs.iter().map(row));
    }
    let rows = allocs.iter().map(|alloc| {
        let [id, node, group, version, desired, status, created, modified] = row(alloc);
        let eval = format::text(alloc.eval_id.as_ref());
        [
            id,
            eval,
            node,
            format::text(alloc.node_name.as_ref()),
            group,
            version,
            desired,
            status,
            created,
            modified,
        ]
    });
    let header = [
        "ID",
        "Eval ID",
        "Node ID",
        "Node Name",
        "Task Group",
        "Version",
        "Desired",
        "Status",
        "Created",
        "Modified",
    ];
    page.table(&header, rows);
}

/// A table of the progress of a deployment's groups. It has columns for canaries only if there are canaries, and one for the
/// automatic return to an older version only if a group asks for it.
pub(crate) fn deployment_groups(page: &mut Page, deployment: &Deployment) {
    let groups: Vec<_> = deployment.task_groups.iter().flatten().collect();
    let has_canaries = groups.iter().any(|(_, group)| group.desired_canaries.unwrap_or_default() > 0);
    let reverts = groups.iter().any(|(_, group)| group.auto_revert.unwrap_or_default());
    let mut header = vec!["Task Group"];
    header.extend(reverts.then_some("Auto Revert"));
    header.extend(has_canaries.then_some("Promoted"));
    header.push("Desired");
    header.extend(has_canaries.then_some("Canaries"));
    header.extend(["Placed", "Healthy", "Unhealthy", "Progress Deadline"]);
    let rows = groups.iter().map(|(name, group)| {
        let mut row = vec![(*name).clone()];
        row.extend(reverts.then(|| group.auto_revert.unwrap_or_default().to_string()));
        row.extend(has_canaries.then(|| group.promoted.unwrap_or_default().to_string()));
        row.push(format::number(group.desired_total));
        row.extend(has_canaries.then(|| format::number(group.desired_canaries)));
        row.extend([group.placed_allocs, group.healthy_allocs, group.unhealthy_allocs].map(format::number));
        let deadline = format::time(group.require_progress_by);
        row.push(if deadline.is_empty() { "N/A".to_owned() } else { deadline });
        row
    });
    page.table(&header, rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_listed_newest_first() {
        let minute = 60_000_000_000;
        let alloc = |id: &str, index: u64, at: i64| AllocListStub {
            id: Some(format!("{id}-0000-4000-8000-000000000000")),
            eval_id: Some("e0000000".to_owned()),
            node_id: Some("40000000-0000".to_owned()),
            task_group: Some("web".to_owned()),
            job_version: Some(2),
            desired_status: Some("run".to_owned()),
            client_status: Some("running".to_owned()),
            create_index: Some(index),
            create_time: Some(at * minute),
            modify_time: Some(at * minute),
            ..AllocListStub::default()
        };
        let allocs = [alloc("a1b2c3d4", 7, 10), alloc("b1b2c3d4", 9, 70)];
        let mut page = Page::default();
        super::allocs(&mut page, &allocs, 71 * minute, false);
        super::allocs(&mut page, &allocs[..1], 71 * minute, true);
        super::allocs(&mut page, &[], 0, false);
        insta::assert_snapshot!(page, @r"
        ID        Node ID   Task Group  Version  Desired  Status   Created   Modified
        b1b2c3d4  40000000  web         2        run      running  1m ago    1m ago
        a1b2c3d4  40000000  web         2        run      running  1h1m ago  1h1m ago
        ID                                    Eval ID   Node ID        Node Name  Task Group  Version  Desired  Status   Created               Modified
        a1b2c3d4-0000-4000-8000-000000000000  e0000000  40000000-0000  <none>     web         2        run      running  1970-01-01T00:10:00Z  1970-01-01T00:10:00Z
        No allocations placed
        ");
    }
}
