//! A simulation of a whole cluster: the real rules of applier, broker, workers and tracker on a simulated network,
//! database and clock (design §9). One seed is one history, in which messages are lost, doubled, late and out of order;
//! processes are killed, stopped and resumed; clocks are apart; and nobody knows what became of a commit.
//!
//! [`play`] plays a history and says what did not hold. Its parts: [`world`] is time, network and processes in general;
//! [`history`] what befalls them; [`checks`] what must hold; the others are the processes, each a shell around rules
//! that the services run for real.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a process looks at what concerns it, and passes over every other message"
)]

mod agent;
mod applier;
mod broker;
mod checks;
mod client;
mod commands;
mod database;
mod feed;
mod history;
mod lease;
mod messages;
mod tracker;
mod worker;
mod world;

pub use history::{Report, play};
pub use planted_bugs::{Bug, plant};
