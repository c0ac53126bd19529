//! Fuzzes [`fuzz::targets::VERSIONS`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::VERSIONS);
