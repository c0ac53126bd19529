//! Fuzzes [`fuzz::targets::AGENT_STATE`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::AGENT_STATE);
