//! Fuzzes [`fuzz::targets::CHANGE_SET`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::CHANGE_SET);
