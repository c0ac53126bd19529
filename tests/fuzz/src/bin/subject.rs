//! Fuzzes [`fuzz::targets::SUBJECT`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::SUBJECT);
