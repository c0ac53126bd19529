//! Tests of Drover as a whole, and the code that they share. Properties of a single crate are tested in that crate.
//!
//! The shared code is in `src/`: builders of objects (`build`); recorded cluster states (`recorded`) and job files
//! (`job_files`); the runner that compares recorded cases with our results (`conformance`); the player of recorded HTTP
//! conversations (`scenes`); the schema of jobs for editors (`job_schema`); starters of real processes, that is
//! PostgreSQL, `nats-server` and the services (`harness`; `bench` for benchmarks), and the failpoints of those
//! processes (`failpoints`); containers (`containers`), promtool (`promtool`), and tests that a machine cannot run
//! (`skips`). The tests are in `tests/`, one target for each subject:
//!
//! - `tidy`: the rules between crates: which depends on which, where SQL and subjects are written, how files open.
//! - `deploy`: the chart and the manifests agree with each other and with the program that they start.
//! - `conformance`: a recorded cluster state leads to the plan of a correct scheduler.
//! - `reconciling`: a job reaches its desired state, whatever happened to it before.
//! - `chaos`: real processes keep their guarantees while any of them, PostgreSQL and NATS are killed, stopped or refuse,
//!   and while clocks, disks and networks fail.
//! - `hostile`: real processes serve their users while others attack them in every way that `docs/hostile.md` lists.
//! - `drill`: the image and the compose file work as documented.
//! - `integration`: real processes do together what each does in its own tests.
//! - `observability`: documentation, dashboards and alert rules name the metrics that exist.
//! - `state`: the state's indexes and counts always agree with its objects.
//!
//! The crate `simulation` beside it checks the same rules on a simulated network, database and clock. This crate may
//! depend on every other crate; only `fuzz` beside it, whose targets begin with the recorded data, depends on it.

pub mod bench;
pub mod build;
pub mod conformance;
pub mod containers;
pub mod failpoints;
pub mod harness;
pub mod job_files;
pub mod job_schema;
pub mod promtool;
pub mod recorded;
pub mod scenes;
pub mod skips;
