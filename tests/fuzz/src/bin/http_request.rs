//! Fuzzes [`fuzz::targets::HTTP_REQUEST`] by coverage.
#![no_main]

fuzz::program!(fuzz::targets::HTTP_REQUEST);
