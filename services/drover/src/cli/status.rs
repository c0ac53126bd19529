//! `drover status`: finds the kind of object that an id belongs to, and shows the object.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use serde::Deserialize;
use serde_json::json;

use super::page::Page;
use super::{ApiCommand, Session, alloc, deployment, eval, flags, format, job, node};

/// Shows the object with a given id, of any kind, or lists all jobs.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    show: flags::Show,
    /// The id of a job, an allocation, a node, a deployment or an evaluation, or a prefix of it. Without it, all jobs are
    /// listed.
    id: Option<String>,
    /// Leave out related objects and details.
    #[arg(long, requires = "id", conflicts_with_all = ["json", "template"])]
    short: bool,
    /// Of a job: also show its evaluations.
    #[arg(long, requires = "id", conflicts_with_all = ["json", "template", "short"])]
    evals: bool,
    /// Of a job: also show allocations of earlier jobs with the same id.
    #[arg(long, requires = "id", conflicts_with_all = ["json", "template", "short"])]
    all_allocs: bool,
}

/// The kinds of objects that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Job,
    Alloc,
    Node,
    Deployment,
    Eval,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Job, Kind::Alloc, Kind::Node, Kind::Deployment, Kind::Eval];

    /// The name of the kind in the search API.
    fn context(self) -> &'static str {
        match self {
            Kind::Job => "jobs",
            Kind::Alloc => "allocs",
            Kind::Node => "nodes",
            Kind::Deployment => "deployment",
            Kind::Eval => "evals",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Kind::Job => "a job",
            Kind::Alloc => "an allocation",
            Kind::Node => "a node",
            Kind::Deployment => "a deployment",
            Kind::Eval => "an evaluation",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Kind::Job => "Jobs",
            Kind::Alloc => "Allocations",
            Kind::Node => "Nodes",
            Kind::Deployment => "Deployments",
            Kind::Eval => "Evaluations",
        }
    }
}

/// The response of the search API.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct SearchResponse {
    matches: BTreeMap<String, Option<Vec<String>>>,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let Some(id) = self.id.clone() else { return show(session, self, Kind::Job, None).await };
        let body = json!({ "Prefix": id, "Context": "all" });
        let found: SearchResponse = session.client.put("/v1/search", &body).await?;
        let (kind, id) = choose(&id, &found)?;
        self.check_kind(kind)?;
        show(session, self, kind, Some(id)).await
    }
}

impl Args {
    /// Refuses flags that have no effect on an object of this kind.
    fn check_kind(&self, kind: Kind) -> anyhow::Result<()> {
        let given = [
            ("-evals", self.evals, kind == Kind::Job),
            ("-all-allocs", self.all_allocs, kind == Kind::Job),
            ("-short", self.short, !matches!(kind, Kind::Deployment | Kind::Eval)),
        ];
        match given.into_iter().find(|(_, is_set, has_effect)| *is_set && !has_effect) {
            Some((flag, ..)) => bail!("{flag} has no effect: the id is that of {}", kind.noun()),
            None => Ok(()),
        }
    }
}

/// The only object with this id or prefix. A job with exactly this id takes precedence over all others.
fn choose(id: &str, found: &SearchResponse) -> anyhow::Result<(Kind, String)> {
    let mut matches: Vec<(Kind, &String)> = Vec::new();
    for kind in Kind::ALL {
        let ids = found.matches.get(kind.context()).into_iter().flatten().flatten();
        // The search drops the last digit of a UUID's prefix if the number of digits is odd.
        matches.extend(ids.filter(|found| has_prefix(kind, found, id)).map(|found| (kind, found)));
    }
    if matches.contains(&(Kind::Job, &id.to_owned())) {
        return Ok((Kind::Job, id.to_owned()));
    }
    match matches.as_slice() {
        [] => bail!("Nothing with prefix or id \"{id}\" found"),
        [(kind, id)] => Ok((*kind, (*id).clone())),
        several => {
            bail!("Multiple matches found for id \"{id}\"\n\n{}", list(several).to_string().trim_end())
        }
    }
}

fn has_prefix(kind: Kind, found: &str, id: &str) -> bool {
    match kind {
        Kind::Job => found.starts_with(id),
        Kind::Alloc | Kind::Node | Kind::Deployment | Kind::Eval => found.starts_with(&id.to_lowercase()),
    }
}

fn list(matches: &[(Kind, &String)]) -> Page {
    let mut page = Page::default();
    for kind in Kind::ALL {
        let ids: Vec<String> = matches
            .iter()
            .filter(|(of, _)| *of == kind)
            .map(|(_, id)| if kind == Kind::Job { (*id).clone() } else { format::id(Some(*id), false) })
            .collect();
        if !ids.is_empty() {
            page.title(kind.title());
            page.line(ids.join(", "));
        }
    }
    page
}

async fn show(session: Session, args: Args, kind: Kind, id: Option<String>) -> anyhow::Result<ExitCode> {
    let Args { show, short, evals, all_allocs, .. } = args;
    match kind {
        Kind::Job => job::status::Args { show, job: id, short, evals, all_allocs }.run(session).await,
        Kind::Alloc => alloc::status::Args { show, alloc: id, short, stats: false }.run(session).await,
        Kind::Node => node::status::Args::one(show, id, short).run(session).await,
        Kind::Deployment => {
            deployment::status::Args { show, deployment: id, monitor: false }.run(session).await
        }
        Kind::Eval => {
            let eval = id.unwrap_or_default();
            eval::status::Args { show, eval, monitor: false }.run(session).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(id: &str, matches: &[(&str, &[&str])]) -> Result<(Kind, String), String> {
        let found = |(kind, ids): &(&str, &[&str])| {
            ((*kind).to_owned(), Some(ids.iter().map(|id| (*id).to_owned()).collect()))
        };
        let found = SearchResponse { matches: matches.iter().map(found).collect() };
        choose(id, &found).map_err(|error| error.to_string())
    }

    #[test]
    fn the_one_thing_that_begins_so_is_it() {
        let node = ("nodes", ["0a1b2c3d-0000"].as_slice());
        assert_eq!(chosen("0a1", &[("jobs", &[]), node]), Ok((Kind::Node, "0a1b2c3d-0000".to_owned())));
        assert_eq!(chosen("0A1B", &[node]), Ok((Kind::Node, "0a1b2c3d-0000".to_owned())));
        let missing = Err("Nothing with prefix or id \"0a2\" found".to_owned());
        assert_eq!(chosen("0a2", &[node, ("namespaces", &["0a2"])]), missing, "the odd digit counts");
    }

    #[test]
    fn flags_are_refused_if_the_object_has_nothing_for_them() {
        let checked = |line: &[&str], kind: Kind| {
            #[derive(clap::Parser)]
            struct Line {
                #[command(flatten)]
                args: Args,
            }
            let line = ["drover"].iter().chain(line);
            let args = <Line as clap::Parser>::parse_from(line).args;
            args.check_kind(kind).map_err(|error| error.to_string())
        };
        assert_eq!(checked(&["--evals", "web"], Kind::Job), Ok(()));
        let refusal = Err("-evals has no effect: the id is that of a node".to_owned());
        assert_eq!(checked(&["--evals", "1a2b"], Kind::Node), refusal);
        assert_eq!(checked(&["--short", "1a2b"], Kind::Alloc), Ok(()));
        let refusal = Err("-short has no effect: the id is that of an evaluation".to_owned());
        assert_eq!(checked(&["--short", "1a2b"], Kind::Eval), refusal);
    }

    #[test]
    fn a_job_of_that_name_goes_before_all_others() {
        let matches: [(&str, &[&str]); 2] = [("jobs", &["ab", "abc"]), ("allocs", &["ab1b2c3d-0000"])];
        assert_eq!(chosen("ab", &matches), Ok((Kind::Job, "ab".to_owned())));
        insta::assert_snapshot!(chosen("a", &matches).unwrap_err(), @r#"
        Multiple matches found for id "a"

        Jobs
        ab, abc

        Allocations
        ab1b2c3d
        "#);
    }
}
