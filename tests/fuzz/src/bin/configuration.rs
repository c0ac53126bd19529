//! Fuzzes [`fuzz::targets::CONFIGURATION`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::CONFIGURATION);
