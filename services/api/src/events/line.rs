//! The line of a change set: all its events that match, written piece by piece, because it may be many megabytes long.

use super::recent::Changed;
use super::shape;
use super::topics::Topics;

/// Size from which a piece is not extended, in bytes. Its last event may exceed it.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// Maximum number of objects that are looked at for a piece.
const OBJECTS_MAX: usize = 512;

/// The line of a change set.
pub(super) struct Line {
    changed: Changed,
    /// Number of objects that were looked at.
    position: usize,
    /// Whether an event was written.
    has_begun: bool,
    has_ended: bool,
}

impl Line {
    pub(super) fn new(changed: Changed) -> Self {
        Self { changed, position: 0, has_begun: false, has_ended: false }
    }

    /// The next piece of the line, which is empty if no event of the next objects matches; `None` at the end of the line.
    pub(super) fn next_piece(&mut self, topics: &Topics) -> Option<Vec<u8>> {
        if self.has_ended {
            return None;
        }
        let Changed { one, objects } = &self.changed;
        let mut piece = Vec::new();
        for _ in 0..OBJECTS_MAX {
            let Some(object) = objects.get(self.position) else {
                self.has_ended = true;
                if self.has_begun {
                    piece.extend_from_slice(b"]}\n");
                }
                break;
            };
            self.position += 1;
            let Some(event) = shape::event(one, topics, object) else { continue };
            match self.has_begun {
                true => piece.push(b','),
                false => piece.extend(format!("{{\"Index\":{},\"Events\":[", one.set.index).into_bytes()),
            }
            self.has_begun = true;
            serde_json::to_writer(&mut piece, &event).expect("plain data always serializes to JSON");
            if piece.len() >= PIECE_BYTES_MAX {
                break;
            }
        }
        Some(piece)
    }
}
