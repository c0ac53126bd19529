//! What it takes to test Drover as a whole: the harness that the tests beside it share. What one crate promises alone
//! is tested in that crate.
//!
//! What tests share lives here in `src/`: objects made from few words (`build`), recorded cluster states (`recorded`),
//! and what starts the real things, a Postgres, a `nats-server`, the services (`harness`). The tests live in `tests/`, one
//! target for each question:
//!
//! - `tidy`: do the walls stand? Who depends on whom, where SQL and subjects are written, how files open.
//! - `conformance`: does a recorded cluster state get the plan that a correct scheduler makes?
//! - `integration`: do real processes keep their promises while they are killed?
//! - `simulation`: do the real cores keep them on a simulated bus, store and clock, one seed a history?
//! - `state`: do the state's indexes and counts always say what its objects say?
//!
//! Of these, `simulation` is still to come. This crate may depend on every other; none depends on it.

pub mod build;
pub mod harness;
pub mod recorded;
