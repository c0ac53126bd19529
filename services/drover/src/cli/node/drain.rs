//! `drover node drain`: moves all work away from a node, or stops doing so (`docs/rules/cli.md` 6.2).

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use api_types::{Allocation, Node};
use serde_json::{Value, json};

use super::draining::Draining;
use super::{own, resolve};
use crate::cli::{ApiCommand, Session, confirm, format};

/// Length of a whole id.
const ID_LENGTH: usize = 36;
/// The deadline of a drain that names none: one hour, in nanoseconds.
const DEADLINE: i64 = 3_600_000_000_000;
/// The deadline of a drain by force.
const AT_ONCE: i64 = -1;

/// Moves all work away from a node, or stops doing so.
///
/// The node gets no new work. Services move step by step, as their jobs allow; batch work may end; allocations of system
/// jobs stop last. At the deadline, what is left stops. The command follows the drain until nothing runs on the node any
/// more.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a node, or a prefix of it. Without it, -self is required.
    node: Option<String>,
    /// Drain the node, or change its drain.
    #[arg(long)]
    enable: bool,
    /// Cancel the drain of the node.
    #[arg(long)]
    disable: bool,
    /// Only follow the drain of the node.
    #[arg(long, conflicts_with_all = [
        "deadline", "no_deadline", "force", "ignore_system", "keep_ineligible", "detach", "message", "meta", "yes",
    ])]
    monitor: bool,
    /// How long the drain may take, such as 30m; one hour by default.
    #[arg(long, value_name = "DURATION")]
    deadline: Option<String>,
    /// Wait for as long as it takes.
    #[arg(long)]
    no_deadline: bool,
    /// Stop all allocations at once.
    #[arg(long)]
    force: bool,
    /// Leave the allocations of system jobs on the node.
    #[arg(long)]
    ignore_system: bool,
    /// With -disable: do not let the node get new work.
    #[arg(long, conflicts_with = "enable")]
    keep_ineligible: bool,
    /// Do not follow the drain.
    #[arg(long)]
    detach: bool,
    /// The node of the agent that answers the request.
    #[arg(long = "self")]
    own: bool,
    /// A message that is stored with the drain.
    #[arg(short = 'm', value_name = "MESSAGE")]
    message: Option<String>,
    /// Metadata that is stored with the drain. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    meta: Vec<String>,
    /// Do not ask, even if the node is named by a prefix.
    #[arg(long)]
    yes: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let spec = self.spec()?;
        let id = self.node_id(&session).await?;
        let path = format!("/v1/node/{id}");
        if self.monitor {
            return self.follow(&session, &id, Vec::new()).await;
        }
        let is_prefix = self.node.as_ref().is_some_and(|node| node.len() != ID_LENGTH);
        if is_prefix && !self.yes && !confirmed(&session, &id, self.enable)? {
            return Ok(ExitCode::SUCCESS);
        }
        // What runs before the drain is known, so that no change is missed.
        let before: Vec<Allocation> = if self.enable && !self.detach {
            session.client.get(&format!("{path}/allocations"), &[]).await?
        } else {
            Vec::new()
        };
        let meta = self.metadata();
        let body = json!({
            "NodeID": id,
            "DrainSpec": spec,
            "MarkEligible": !self.keep_ineligible,
            "Meta": (!meta.is_empty()).then_some(meta),
        });
        let _: Value = session.client.put(&format!("{path}/drain"), &body).await?;
        let done = if self.enable { "set" } else { "unset" };
        let text = format!("Node \"{id}\" drain strategy {done}");
        if self.disable || self.detach {
            session.output.line(&text);
            return Ok(ExitCode::SUCCESS);
        }
        print(&session, ["Ctrl-C to stop monitoring: will not cancel the node drain".to_owned(), text]);
        self.follow(&session, &id, before).await
    }
}

impl Args {
    /// Checks the flags, and returns the drain that they describe; `None` without one.
    fn spec(&self) -> anyhow::Result<Option<Value>> {
        let Self { enable, disable, monitor, no_deadline, force, ignore_system, .. } = *self;
        if monitor && (enable || disable) {
            bail!(mistake("The -monitor flag cannot be used with the '-enable' or '-disable' flags"));
        }
        if !monitor && enable == disable {
            bail!(mistake("Either the '-enable' or '-disable' flag must be set, unless using '-monitor'"));
        }
        if self.node.is_some() == self.own {
            bail!(mistake("Node ID must be specified if -self isn't being used"));
        }
        if self.deadline.is_some() && (force || no_deadline) {
            bail!(mistake("-deadline can't be combined with -force or -no-deadline"));
        }
        if force && no_deadline {
            bail!(mistake("-force and -no-deadline are mutually exclusive"));
        }
        if disable && (self.deadline.is_some() || force || no_deadline || ignore_system) {
            bail!(mistake("-disable can't be combined with flags configuring drain strategy"));
        }
        let deadline = match &self.deadline {
            _ if force => AT_ONCE,
            _ if no_deadline => 0,
            None => DEADLINE,
            Some(text) => match api_types::duration::parse(text) {
                Ok(nanos) if nanos > 0 => nanos,
                Ok(_) => bail!(mistake("A positive drain duration must be given")),
                Err(_) => bail!("Failed to parse deadline {text:?}: time: invalid duration {text:?}"),
            },
        };
        Ok(enable.then(|| json!({ "Deadline": deadline, "IgnoreSystemJobs": ignore_system })))
    }

    /// The metadata of the drain.
    fn metadata(&self) -> BTreeMap<&str, &str> {
        let pairs = self.meta.iter().map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let message = self.message.as_deref().filter(|message| !message.is_empty());
        pairs.chain(message.map(|message| ("message", message))).collect()
    }

    async fn node_id(&self, session: &Session) -> anyhow::Result<String> {
        match &self.node {
            Some(prefix) => resolve(&session.client, prefix, true).await,
            None => own(&session.client).await,
        }
    }

    /// Follows a drain until nothing that it concerns runs on the node any more. `before` are the node's allocations before
    /// the drain.
    async fn follow(&self, session: &Session, id: &str, before: Vec<Allocation>) -> anyhow::Result<ExitCode> {
        let (node_path, allocs_path) = (format!("/v1/node/{id}"), format!("/v1/node/{id}/allocations"));
        let (mut node, mut node_index): (Node, u64) = session.wait(&node_path, 0).await?;
        if self.monitor {
            if node.drain_strategy.is_none() {
                session.output.error("No drain strategy set");
                return Ok(ExitCode::SUCCESS);
            }
            print(session, [format!("Monitoring node \"{id}\": Ctrl-C to detach monitoring")]);
        }
        let mut draining = Draining::new(id, self.ignore_system, &before);
        let (mut allocs, mut allocs_index): (Vec<Allocation>, u64) = session.wait(&allocs_path, 0).await?;
        loop {
            let (lines, is_over) = draining.update(&node, &allocs);
            print(session, lines);
            if is_over {
                return Ok(ExitCode::SUCCESS);
            }
            tokio::select! {
                newer = session.wait(&node_path, node_index) => (node, node_index) = newer?,
                newer = session.wait(&allocs_path, allocs_index) => (allocs, allocs_index) = newer?,
            }
        }
    }
}

/// Prints lines with the current time.
fn print(session: &Session, lines: impl IntoIterator<Item = String>) {
    let now = format::moment(format::now());
    lines.into_iter().for_each(|line| session.output.line(&format!("{now}: {line}")));
}

/// Asks whether the node that a prefix names is the right one.
fn confirmed(session: &Session, id: &str, enable: bool) -> anyhow::Result<bool> {
    let change = if enable { "enable" } else { "disable" };
    let agreed = confirm::ask(&format!("Are you sure you want to {change} drain mode for node \"{id}\"?"))?;
    session.output.line("");
    if !agreed {
        session.output.line("Canceling drain toggle");
    }
    Ok(agreed)
}

/// An error in the arguments, with the line that names the help.
fn mistake(text: &str) -> anyhow::Error {
    anyhow!("{text}\nFor additional help try 'drover node drain -help'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Args {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            args: Args,
        }
        <Flags as clap::Parser>::parse_from(["drain"].iter().chain(words)).args
    }

    /// The first line of the error that the flags cause.
    fn refused(words: &[&str]) -> String {
        let error = args(words).spec().unwrap_err().to_string();
        error.lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        let either = "Either the '-enable' or '-disable' flag must be set, unless using '-monitor'";
        assert_eq!(refused(&["n"]), either);
        assert_eq!(refused(&["--enable", "--disable", "n"]), either);
        let monitor = "The -monitor flag cannot be used with the '-enable' or '-disable' flags";
        assert_eq!(refused(&["--monitor", "--enable", "n"]), monitor);
        let node = "Node ID must be specified if -self isn't being used";
        assert_eq!(refused(&["--enable"]), node);
        assert_eq!(refused(&["--enable", "--self", "n"]), node);
        let deadline = "-deadline can't be combined with -force or -no-deadline";
        assert_eq!(refused(&["--enable", "--force", "--deadline", "1h", "n"]), deadline);
        assert_eq!(refused(&["--enable", "--no-deadline", "--deadline", "1h", "n"]), deadline);
        let force = "-force and -no-deadline are mutually exclusive";
        assert_eq!(refused(&["--enable", "--force", "--no-deadline", "n"]), force);
        let disable = "-disable can't be combined with flags configuring drain strategy";
        assert_eq!(refused(&["--disable", "--ignore-system", "n"]), disable);
        let duration = "Failed to parse deadline \"x\": time: invalid duration \"x\"";
        assert_eq!(refused(&["--enable", "--deadline", "x", "n"]), duration);
        assert!(args(&["n"]).spec().unwrap_err().to_string().ends_with("'drover node drain -help'"));
    }

    #[test]
    fn flags_become_a_drain() {
        let spec = |words: &[&str]| args(words).spec().unwrap();
        let drain =
            |deadline: i64, ignore: bool| Some(json!({ "Deadline": deadline, "IgnoreSystemJobs": ignore }));
        assert_eq!(spec(&["--enable", "n"]), drain(3_600_000_000_000, false));
        assert_eq!(spec(&["--enable", "--deadline", "90s", "n"]), drain(90_000_000_000, false));
        assert_eq!(spec(&["--enable", "--no-deadline", "--ignore-system", "n"]), drain(0, true));
        assert_eq!(spec(&["--enable", "--force", "--self"]), drain(-1, false));
        assert_eq!(spec(&["--disable", "--keep-ineligible", "n"]), None);
        assert_eq!(spec(&["--monitor", "n"]), None);
    }

    #[test]
    fn metadata_is_pairs_and_a_message() {
        // A pair without `=` is taken without a word (cli 6.2).
        let args = args(&["--enable", "-m", "repairs", "--meta", "by=me=you", "--meta", "urgent", "n"]);
        let expected = BTreeMap::from([("by", "me=you"), ("message", "repairs"), ("urgent", "")]);
        assert_eq!(args.metadata(), expected);
    }
}
