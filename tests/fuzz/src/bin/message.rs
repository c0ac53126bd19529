//! Fuzzes [`fuzz::targets::MESSAGE`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::MESSAGE);
