//! Fuzzes [`fuzz::targets::VARIABLES`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::VARIABLES);
