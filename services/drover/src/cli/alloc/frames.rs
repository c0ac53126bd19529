//! Decoder of the frames in which the API streams a file (http-api 13.1). Pure: bytes in, frames out.

use anyhow::{Context as _, ensure};
use api_types::Base64;
use serde::Deserialize;

/// Maximum size of a frame, in bytes. The API's frames have at most a tenth of it.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// A part of a file, or an event of the file. An empty frame is a keep-alive.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Frame {
    pub(super) data: Base64,
    pub(super) file_event: String,
}

/// Decodes frames from bytes that may be split anywhere.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The incomplete frame at the end of the bytes so far.
    rest: Vec<u8>,
}

impl Frames {
    /// Returns the frames that these bytes complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> anyhow::Result<Vec<Frame>> {
        self.rest.extend_from_slice(bytes);
        let (mut frames, mut consumed) = (Vec::new(), 0);
        let mut decoder = serde_json::Deserializer::from_slice(&self.rest).into_iter::<Frame>();
        while let Some(frame) = decoder.next() {
            match frame {
                Ok(frame) => frames.push(frame),
                Err(error) if error.is_eof() => break,
                Err(error) => return Err(error).context("cannot decode the API's response as frames"),
            }
            consumed = decoder.byte_offset();
        }
        self.rest.drain(..consumed);
        ensure!(self.rest.len() <= FRAME_BYTES_MAX, "a frame has more than {FRAME_BYTES_MAX} bytes");
        Ok(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_wherever_the_bytes_are_cut() {
        let text = br#"{"Offset":5,"Data":"aGVsbG8=","File":"a"}{}{"FileEvent":"file deleted"}"#;
        let frame = |data: &str, event: &str| Frame {
            data: Base64(data.as_bytes().to_vec()),
            file_event: event.to_owned(),
        };
        let expected = [frame("hello", ""), frame("", ""), frame("", "file deleted")];
        for at in 0..=text.len() {
            let mut frames = Frames::default();
            let mut found = frames.take(&text[..at]).unwrap();
            found.extend(frames.take(&text[at..]).unwrap());
            assert_eq!(found, expected, "cut at {at}");
        }
    }

    #[test]
    fn invalid_frames_are_errors() {
        assert!(Frames::default().take(b"no such file").is_err());
        let endless = format!("{{\"Data\":\"{}", "A".repeat(FRAME_BYTES_MAX));
        assert!(Frames::default().take(endless.as_bytes()).is_err());
    }
}
