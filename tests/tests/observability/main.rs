//! Documentation of metrics, dashboards and alert rules name only metrics that processes emit, according to the
//! catalogue of metrics. These tests start no process. `integration` checks what a cluster really emits.

mod boards;
mod chart;
mod dashboards;
mod documented;
mod emitted;
mod operations;
mod promql;
mod rules;
