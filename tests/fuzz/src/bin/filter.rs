//! Fuzzes [`fuzz::targets::FILTER`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::FILTER);
