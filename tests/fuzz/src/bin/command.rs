//! Fuzzes [`fuzz::targets::COMMAND`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::COMMAND);
