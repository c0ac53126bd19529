//! Fuzzes [`fuzz::targets::JOB_BODY`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::JOB_BODY);
