//! Fuzzes [`fuzz::targets::TASK_TEMPLATE`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::TASK_TEMPLATE);
