//! `drover job scaling-events`: shows the last requests to scale the task groups of a job.

use std::process::ExitCode;

use api_types::{JobScaleStatus, ScalingEvent};

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, format};

/// Shows the last requests to scale the task groups of a job, the newest first.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a job, or a prefix of it.
    job: String,
    /// Print whole ids, messages and exact times.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let job = resolve(&session.client, &self.job).await?;
        let path = format!("/v1/job/{}/scale", escaped(&job.id));
        let namespace = [("namespace", job.namespace.as_str())];
        let status: JobScaleStatus = session.client.get(&path, &namespace).await?;
        session.output.page(&page(&status, format::now(), self.verbose));
        Ok(ExitCode::SUCCESS)
    }
}

fn page(status: &JobScaleStatus, now: i64, verbose: bool) -> Page {
    let groups = status.task_groups.iter().flatten();
    let events =
        groups.flat_map(|(group, status)| status.events.iter().flatten().map(move |event| (group, event)));
    let mut events: Vec<(&String, &ScalingEvent)> = events.collect();
    events.sort_by_key(|(_, event)| std::cmp::Reverse((event.time, event.create_index)));
    let mut page = Page::default();
    if events.is_empty() {
        page.line("No events found");
        return page;
    }
    let date = |event: &ScalingEvent| format::ago(event.time.unwrap_or_default(), now, verbose);
    let count = |event: &ScalingEvent| event.count.map(|count| count.to_string()).unwrap_or_default();
    if verbose {
        let rows = events.iter().map(|(group, event)| {
            [
                (*group).clone(),
                count(event),
                format::number(event.previous_count),
                event.error.unwrap_or_default().to_string(),
                format::text(event.message.as_ref()),
                format::text(event.eval_id.as_ref()),
                date(event),
            ]
        });
        page.table(&["Task Group", "Count", "PrevCount", "Error", "Message", "Eval ID", "Date"], rows);
    } else {
        let rows = events.iter().map(|(group, event)| {
            [(*group).clone(), count(event), format::number(event.previous_count), date(event)]
        });
        page.table(&["Task Group", "Count", "PrevCount", "Date"], rows);
    }
    page
}

#[cfg(test)]
mod tests {
    use api_types::TaskGroupScaleStatus;

    use super::*;

    #[test]
    fn the_newest_event_of_any_group_comes_first() {
        // cli.md 4.8.
        let event = |time: i64, count| ScalingEvent {
            time: Some(time * 1_000_000_000),
            count,
            previous_count: Some(1),
            ..ScalingEvent::default()
        };
        let group = |events| TaskGroupScaleStatus { events: Some(events), ..TaskGroupScaleStatus::default() };
        let groups = [
            ("a".to_owned(), group(vec![event(30, None), event(10, Some(2))])),
            ("b".to_owned(), group(vec![event(20, Some(3))])),
        ];
        let status = JobScaleStatus { task_groups: Some(groups.into()), ..JobScaleStatus::default() };
        let text = page(&status, 40_000_000_000, false).to_string();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["Task", "Group", "Count", "PrevCount", "Date"]);
        assert_eq!(rows[1], ["a", "<none>", "1", "10s", "ago"]);
        assert_eq!(rows[2], ["b", "3", "1", "20s", "ago"]);
        assert_eq!(rows[3], ["a", "2", "1", "30s", "ago"]);
        assert_eq!(page(&JobScaleStatus::default(), 0, false).to_string(), "No events found\n");
    }
}
