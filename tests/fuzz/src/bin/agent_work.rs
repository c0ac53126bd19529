//! Fuzzes [`fuzz::targets::AGENT_WORK`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::AGENT_WORK);
