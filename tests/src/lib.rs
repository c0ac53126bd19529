//! What it takes to test Drover as a whole: the harness that the tests beside it share. What one crate promises alone
//! is tested in that crate.
//!
//! What tests share lives here in `src/`: objects made from few words (`build`), recorded cluster states (`recorded`) and
//! job files (`job_files`), the runner that compares recorded cases with what we do (`conformance`), the player of recorded
//! conversations over HTTP (`scenes`), the schema of jobs for
//! editors (`job_schema`), what starts the real things, a Postgres, a `nats-server`, the services (`harness`; `benched`
//! where times are taken), and what these do to themselves (`failpoints`); containers (`containers`), promtool (`promtool`), and
//! tests that a machine cannot run (`skips`). The tests live in `tests/`, one target for each question:
//!
//! - `tidy`: do the walls stand? Who depends on whom, where SQL and subjects are written, how files open.
//! - `deploy`: do the chart and the manifests fit together, and the program that they start?
//! - `conformance`: does a recorded cluster state get the plan that a correct scheduler makes?
//! - `reconciling`: does a job come to where it should be, whatever happened to it before?
//! - `chaos`: do real processes keep their promises while any of them, PostgreSQL and NATS are killed, stopped, or refuse?
//! - `drill`: are the image and the compose file what they promise?
//! - `integration`: do real processes do together what each does in its tests?
//! - `observability`: do documentation, dashboards and alert rules name the metrics that there are?
//! - `state`: do the state's indexes and counts always say what its objects say?
//!
//! The crate `simulation` beside it asks the same of the real rules on a simulated network, database and clock. This crate
//! may depend on every other; none depends on it.

pub mod benched;
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
