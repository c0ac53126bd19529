//! The chart scrapes every process. From the API it keeps exactly the series that the API computes from the state.

use std::fs;
use std::path::Path;

use regex::Regex;
use telemetry::metrics::prometheus::{exposed_name, names};
use telemetry::metrics::{Merge, Metric, catalogue};

#[test]
fn the_chart_keeps_only_the_metrics_that_the_api_computes() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kubernetes/chart/templates/monitoring.yaml");
    let text = fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("action: keep").expect("the chart filters the API's series");
    let kept = rest
        .lines()
        .find_map(|line| line.trim().strip_prefix("regex: "))
        .expect("the filter is a regular expression");
    let kept = Regex::new(&format!("^(?:{kept})$")).unwrap();
    for meta in catalogue::all().map(Metric::meta) {
        for name in names(meta).iter().map(|name| exposed_name(meta, name)) {
            let is_computed = meta.merge == Merge::Api;
            // A summary has further series. None of them is computed.
            for series in [name.clone(), format!("{name}_sum"), format!("{name}_count")] {
                let is_own = series == name;
                assert_eq!(
                    kept.is_match(&series) && (is_own || !is_computed),
                    is_computed && is_own,
                    "{series}"
                );
            }
        }
    }
}
