//! Tests of networks: with scripts as plugins, and with real plugins in namespaces of the tests' own.

mod facilities;
mod fake;
mod real;
