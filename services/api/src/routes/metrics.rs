//! Route of the cluster's metrics (http-api §30), in the reference's JSON form or in Prometheus text format.

use actix_web::http::StatusCode;
use actix_web::web::Bytes;
use telemetry::metrics::prometheus;

use super::Request;
use crate::Api;
use crate::cluster_metrics;
use crate::http::{Body, Error, Response};

/// Reads all series.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    let is_prometheus = request.query.text("format") == "prometheus";
    if is_prometheus && !api.args.prometheus_metrics {
        return Err(Error::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Prometheus is not enabled"));
    }
    let lines = api.metrics.lines(&api.background, &api.replica, api.has_leader()).await?;
    if is_prometheus {
        let bytes = Bytes::from(cluster_metrics::text(lines));
        return Ok(Response::ok(Body::Other { content_type: prometheus::CONTENT_TYPE.to_owned(), bytes }));
    }
    Ok(Response::json(&cluster_metrics::json(&lines, telemetry::clock::now())))
}
