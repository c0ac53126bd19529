//! Gzip compression of response bodies (http-api §1.8). Streams are not compressed, so that each message arrives at once.

use std::io::Write as _;

use actix_web::http::header::{ACCEPT_ENCODING, HeaderMap};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Minimum size of a body that is compressed, in bytes. Compression gains nothing for a body that fits in one packet.
const GZIP_BYTES_MIN: usize = 1_024;

/// Whether the client accepts gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT_ENCODING).filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip && !parts.any(is_refusal)
    })
}

/// Whether a parameter of a coding is a weight of 0, which has up to three decimals.
fn is_refusal(parameter: &str) -> bool {
    let weight = parameter.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    weight.is_some_and(|(_, weight)| weight.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0))
}

/// Compresses a body; `None` if the body is too small.
pub(crate) fn gzip(body: &[u8]) -> Option<Vec<u8>> {
    if body.len() < GZIP_BYTES_MIN {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    #[test]
    fn only_who_asks_for_gzip_gets_it() {
        let accepts = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            accepts_gzip(&headers)
        };
        assert!(accepts("gzip") && accepts("deflate, GZIP;q=0.5"));
        assert!(!accepts("identity") && !accepts("br, gzip;q=0") && !accepts(""));
        assert!(!accepts("gzip; q=0.000") && !accepts("gzip;Q = 0") && accepts("gzip;q=0.001"));
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn small_bodies_are_left_alone() {
        assert_eq!(gzip(&[b'x'; 100]), None);
        assert!(gzip(&[b'x'; 10_000]).is_some_and(|smaller| smaller.len() < 200));
    }
}
