//! Fuzzes [`fuzz::targets::CRON`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::CRON);
