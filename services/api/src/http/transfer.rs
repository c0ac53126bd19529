//! How bodies leave the server: in slices, so that no connection holds a copy of a whole body in its write buffer; and
//! indented or compressed on the way, a slice at a time, so that other requests of the thread run in between.

use std::io::{self, Write as _};

use actix_web::web::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{Stream, StreamExt as _, stream};

use super::BodyStream;
use super::indent::Indenter;

/// Maximum size of a slice, in bytes.
pub(super) const SLICE_BYTES_MAX: usize = 64 << 10;

/// The slices of a body. `keep` is dropped with them.
pub(super) fn slices<K: 'static>(body: Bytes, keep: K) -> impl Stream<Item = io::Result<Bytes>> + 'static {
    stream::unfold((body, keep), |(mut body, keep)| async move {
        if body.is_empty() {
            return None;
        }
        let slice = body.split_to(body.len().min(SLICE_BYTES_MAX));
        Some((Ok(slice), (body, keep)))
    })
}

/// Transforms a body while it is sent: indents it, compresses it, or both.
pub(super) fn transformed(
    pieces: impl Stream<Item = io::Result<Bytes>> + 'static,
    indent: bool,
    compress: bool,
) -> BodyStream {
    let transform = Transform {
        indenter: indent.then(Indenter::default),
        encoder: compress.then(|| GzEncoder::new(Vec::new(), Compression::fast())),
    };
    let state = (Box::pin(pieces), Some(transform));
    Box::pin(stream::unfold(state, |(mut pieces, transform)| async move {
        let mut transform = transform?;
        // A client that reads quickly would otherwise occupy the thread.
        tokio::task::yield_now().await;
        match pieces.next().await {
            Some(Ok(piece)) => {
                let transformed = transform.next(&piece);
                Some((transformed, (pieces, Some(transform))))
            }
            Some(Err(error)) => Some((Err(error), (pieces, None))),
            None => Some((transform.end(), (pieces, None))),
        }
    }))
}

struct Transform {
    indenter: Option<Indenter>,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Transform {
    fn next(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        let Some(indenter) = &mut self.indenter else { return self.encode(piece) };
        let mut indented = Vec::with_capacity(piece.len() * 2);
        indenter.indent(piece, &mut indented);
        self.encode(&indented)
    }

    /// What is left at the end of the body.
    fn end(self) -> io::Result<Bytes> {
        let newline: &[u8] = if self.indenter.is_some() { b"\n" } else { b"" };
        match self.encoder {
            None => Ok(Bytes::from_static(newline)),
            Some(mut encoder) => {
                encoder.write_all(newline)?;
                encoder.finish().map(Bytes::from)
            }
        }
    }

    fn encode(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        match &mut self.encoder {
            None => Ok(Bytes::copy_from_slice(piece)),
            Some(encoder) => {
                encoder.write_all(piece)?;
                Ok(std::mem::take(encoder.get_mut()).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::rc::Rc;

    use super::*;

    async fn collected(pieces: impl Stream<Item = io::Result<Bytes>>) -> Vec<Bytes> {
        pieces.map(Result::unwrap).collect().await
    }

    #[actix_web::test]
    async fn a_body_is_cut_into_slices() {
        let kept = Rc::new(());
        let weak = Rc::downgrade(&kept);
        let body = Bytes::from(vec![b'x'; 2 * SLICE_BYTES_MAX + 1]);
        let pieces = collected(slices(body.clone(), kept)).await;
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [SLICE_BYTES_MAX, SLICE_BYTES_MAX, 1]);
        assert_eq!(pieces.concat(), body);
        assert!(weak.upgrade().is_none());
        assert_eq!(collected(slices(Bytes::new(), ())).await, [""; 0]);
    }

    #[actix_web::test]
    async fn bodies_are_indented_and_compressed_on_the_way() {
        let json = format!("[{}1]", "\"text\",".repeat(100_000));
        let expected = format!("[\n{}    1\n]\n", "    \"text\",\n".repeat(100_000));
        let pieces = || slices(Bytes::from(json.clone()), ());
        let indented = collected(transformed(pieces(), true, false)).await.concat();
        assert!(indented == expected.as_bytes());
        let read = |bytes: Vec<u8>| {
            let mut text = String::new();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
            text
        };
        let both = collected(transformed(pieces(), true, true)).await.concat();
        assert!(both.len() < json.len() / 10 && read(both) == expected);
        let compressed = collected(transformed(pieces(), false, true)).await.concat();
        assert!(read(compressed) == json);
    }

    #[actix_web::test]
    async fn an_error_ends_the_body() {
        let pieces =
            stream::iter([Ok(Bytes::from_static(b"[1,")), Err(io::Error::other("the rest is lost"))]);
        let mut transformed = transformed(pieces, true, false);
        assert_eq!(transformed.next().await.unwrap().unwrap(), "[\n    1,\n    ");
        assert!(transformed.next().await.unwrap().is_err());
        assert!(transformed.next().await.is_none());
    }
}
