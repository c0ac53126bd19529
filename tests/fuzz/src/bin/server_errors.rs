//! Fuzzes [`fuzz::targets::SERVER_ERRORS`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::SERVER_ERRORS);
