//! A hostile neighbour: attackers do to a real cluster whatever they can think of, one attack after another, while
//! ordinary users go on reading and registering jobs beside them and a task runs.
//!
//! `table` lists the attacks, `run` carries them out, and `docs/hostile.md` shows the list. What must hold whatever the
//! attack is in [`run`]: other users are served quickly and lose nothing, no process takes more memory than its bound,
//! none ends, and what the attacker held is free again as soon as it has left.
//!
//! `make hostile` runs all attacks on the optimised build, and measures. `make test` runs the quick ones on the
//! ordinary build, and does not judge how fast others are served. `ONLY=` selects attacks whose name contains a text.
#![allow(clippy::print_stdout, reason = "long tests print their progress")]

mod attack;
mod bodies;
mod browsers;
mod bus;
mod connections;
mod files;
mod guard;
mod ids;
mod job_files;
mod jobs;
mod lists;
mod neighbour;
mod page;
mod params;
mod paths;
mod protocol;
mod run;
mod scene;
mod shutdown;
mod socket;
mod streams;
mod table;
mod tasks;

use run::Selection;

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_stands_whatever_its_neighbours_do() {
    let selection = Selection::of_environment();
    let faults = run::carry_out(&table::attacks(), &selection).await;
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
