//! `drover operator accept-database`: goes on with a database that lost acknowledged writes.

use std::io::{IsTerminal as _, Write as _};

use anyhow::Context as _;
use model::HistoryId;
use store::Writer;

/// Accepts a database that services refuse because it went back, by a restore or a bad failover, or was moved to another
/// server. What was acknowledged and is not in it is lost for good; everything goes on from what it holds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    store: store::Args,
}

/// Begins a new history in the database as it is, and says which.
pub(super) async fn run(args: &Args) -> anyhow::Result<String> {
    if !args.yes && !confirmed()? {
        anyhow::bail!("nothing was changed");
    }
    let writer = Writer::connect(&args.store).await.context("cannot use the database")?;
    let history = HistoryId::from_bytes(telemetry::clock::random_bytes());
    let head = writer.accept(history).await.context("cannot accept the database")?;
    Ok(format!("The database is accepted as it is, at index {}. It begins history {history}.", head.index))
}

/// Asks on a terminal; where nobody can be asked, the answer is an error.
fn confirmed() -> anyhow::Result<bool> {
    anyhow::ensure!(std::io::stdin().is_terminal(), "say -yes where nobody can be asked");
    let mut out = std::io::stdout();
    write!(
        out,
        "Writes that were acknowledged and are not in this database are lost for good. Accept it? [y/N] "
    )?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
