//! Streams that are compressed.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::artifacts::format::Compression;

/// The memory that a stream may need to be read, in KiB (xz) and bytes (Zstandard).
const XZ_KIB_MAX: u32 = 1 << 20;
const ZSTD_BYTES_MAX: u64 = 1 << 30;

/// The content of a compressed file.
pub(super) fn decompressed(compression: Compression, packed: BufReader<File>) -> io::Result<Box<dyn Read>> {
    Ok(match compression {
        Compression::Gzip => Box::new(MultiGzDecoder::new(packed)),
        Compression::Bzip2 => Box::new(MultiBzDecoder::new(packed)),
        Compression::Xz => Box::new(XzReader::new_mem_limit(packed, true, XZ_KIB_MAX)),
        Compression::Zstd => Box::new(Frames(Some(frame(packed)?))),
    })
}

type Frame = StreamingDecoder<BufReader<File>, FrameDecoder>;

fn frame(packed: BufReader<File>) -> io::Result<Frame> {
    StreamingDecoder::new_with_max_window_size(packed, ZSTD_BYTES_MAX).map_err(io::Error::other)
}

/// The frames of a file of Zstandard, one after the other; `None` after the last one.
struct Frames(Option<Frame>);

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(mut current) = self.0.take() {
            let count = current.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                self.0 = Some(current);
                return Ok(count);
            }
            let mut rest = current.into_inner();
            if !rest.fill_buf()?.is_empty() {
                self.0 = Some(frame(rest)?);
            }
        }
        Ok(0)
    }
}
