//! Fuzzes [`fuzz::targets::JOB_FILE_JSON`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::JOB_FILE_JSON);
