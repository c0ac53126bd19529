//! Fuzzes [`fuzz::targets::GO_TEMPLATE`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::GO_TEMPLATE);
