//! Fuzzes [`fuzz::targets::DURATION`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::DURATION);
