//! Fuzzes [`fuzz::targets::JOB_FILE`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::JOB_FILE);
