//! Fuzzes [`fuzz::targets::EXPRESSION`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::EXPRESSION);
