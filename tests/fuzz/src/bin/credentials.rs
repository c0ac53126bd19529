//! Fuzzes [`fuzz::targets::CREDENTIALS`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::CREDENTIALS);
