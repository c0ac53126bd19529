//! What people look at is what processes emit: the documentation of metrics, dashboards and alert rules against the
//! catalogue of metrics. Nothing is started here; what a cluster really emits is looked at in `integration`.

mod boards;
mod chart;
mod dashboards;
mod documented;
mod emitted;
mod operations;
mod promql;
mod rules;
