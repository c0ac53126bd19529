//! Encoding of streamed files and logs: plain bytes, or JSON frames with file and offset (http-api §13.1).

use actix_web::web::Bytes;
use api_types::Base64;
use model::Text;
use serde::Serialize;

/// One item of a stream: the result of one request to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamItem {
    /// Bytes.
    Data {
        /// File that contains them.
        file: Text,
        /// Offset of their end in the file.
        end: u64,
        /// The bytes.
        data: Bytes,
    },
    /// An event of the file.
    Event {
        /// File.
        file: Text,
        /// Name of the event.
        event: &'static str,
    },
    /// No new data.
    Nothing,
}

/// Encoding of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Only the bytes.
    Plain,
    /// Concatenated JSON objects.
    Frames,
}

/// One frame. Empty members are omitted, so that a heartbeat is `{}`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Frame<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Base64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file_event: &'a str,
}

impl Framing {
    /// Encodes an item; `None` if the encoding has nothing for it.
    pub(crate) fn frame(self, item: &StreamItem) -> Option<Bytes> {
        match (self, item) {
            (Self::Plain, StreamItem::Data { data, .. }) => Some(data.clone()),
            (Self::Plain, StreamItem::Event { .. } | StreamItem::Nothing) => None,
            (Self::Frames, StreamItem::Data { file, end, data }) => {
                let data = Some(Base64(data.to_vec()));
                Some(encode(&Frame { offset: Some(*end).filter(|end| *end > 0), data, file, file_event: "" }))
            }
            (Self::Frames, StreamItem::Event { file, event }) => {
                Some(encode(&Frame { file, file_event: event, ..Frame::default() }))
            }
            (Self::Frames, StreamItem::Nothing) => Some(encode(&Frame::default())),
        }
    }
}

fn encode(frame: &Frame<'_>) -> Bytes {
    serde_json::to_vec(frame).expect("plain data always serializes to JSON").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_out_what_is_empty() {
        let text =
            |item: &StreamItem| String::from_utf8(Framing::Frames.frame(item).unwrap().to_vec()).unwrap();
        assert_eq!(text(&StreamItem::Nothing), "{}");
        let data = StreamItem::Data { file: "t/x".into(), end: 5, data: Bytes::from_static(b"hello") };
        assert_eq!(text(&data), r#"{"Offset":5,"Data":"aGVsbG8=","File":"t/x"}"#);
        let event = StreamItem::Event { file: "t/x".into(), event: "file deleted" };
        assert_eq!(text(&event), r#"{"File":"t/x","FileEvent":"file deleted"}"#);
        assert_eq!(Framing::Plain.frame(&data), Some(Bytes::from_static(b"hello")));
        assert_eq!(Framing::Plain.frame(&event), None);
    }
}
