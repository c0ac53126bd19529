//! What this process has counted (http-api §30), in Nomad's shape or in that of Prometheus.
//!
//! Nomad shows intervals of ten seconds; what is shown here is counted since the process began.

use actix_web::web::Bytes;
use serde_json::{Map, Value, json};
use telemetry::metrics::{self, Distribution, Series};

use super::Request;
use crate::Api;
use crate::frame::{Answer, Body, Error};

/// All series.
pub(crate) fn read(_: &Api, request: &Request) -> Result<Answer, Error> {
    let series = metrics::series();
    if request.query.text("format") == "prometheus" {
        let content_type = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores".to_owned();
        return Ok(Answer::ok(Body::Other {
            content_type,
            bytes: Bytes::from(metrics::prometheus(&series)),
        }));
    }
    Ok(Answer::json(&shape(&series, telemetry::clock::now().as_secs())))
}

fn shape(series: &[Series], now_secs: i64) -> Value {
    let (mut gauges, mut counters, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    for Series { name, labels, value } in series {
        let labels: Map<String, Value> =
            labels.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
        match value {
            metrics::Value::Gauge(value) => {
                gauges.push(json!({ "Name": name, "Value": value, "Labels": labels }));
            }
            metrics::Value::Counter(sum) => counters.push(json!({
                "Name": name, "Count": sum, "Rate": 0.0, "Sum": sum, "Min": 0.0, "Max": 0.0,
                "Mean": 0.0, "Stddev": 0.0, "Labels": labels,
            })),
            metrics::Value::Histogram(Distribution { count, sum, min, max, .. }) => {
                let mean = if *count == 0 { 0.0 } else { sum / *count as f64 };
                samples.push(json!({
                    "Name": name, "Count": count, "Rate": 0.0, "Sum": sum, "Min": min, "Max": max,
                    "Mean": mean, "Stddev": 0.0, "Labels": labels,
                }));
            }
        }
    }
    json!({
        "Timestamp": utc(now_secs),
        "Gauges": gauges,
        "PrecisionGauges": [],
        "Points": [],
        "Counters": counters,
        "Samples": samples,
    })
}

/// A moment as Nomad writes it here: `2006-01-02 15:04:05 +0000 UTC`.
fn utc(secs: i64) -> String {
    let rfc3339 = api_types::Time::from_unix_nanos(secs.saturating_mul(1_000_000_000)).to_string();
    format!("{} +0000 UTC", rfc3339.trim_end_matches('Z').replace('T', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_stand_in_nomads_lists() {
        let series = |name: &str, value| Series { name: name.to_owned(), labels: vec![], value };
        let shaped = shape(
            &[series("a", metrics::Value::Counter(3)), series("b", metrics::Value::Gauge(1.5))],
            1_136_214_245,
        );
        assert_eq!(shaped["Timestamp"], "2006-01-02 15:04:05 +0000 UTC");
        assert_eq!(shaped["Counters"][0]["Sum"], 3);
        assert_eq!(shaped["Gauges"][0]["Value"], 1.5);
        assert_eq!(shaped["Samples"], json!([]));
    }
}
