//! Fuzzes [`fuzz::targets::FUNCTION_DATA`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::FUNCTION_DATA);
