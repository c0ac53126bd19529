//! How far the pull of an image has come. Pure.

use std::collections::BTreeMap;

use crate::engine::PullStatus;

const MB: u64 = 1 << 20;

/// The layers of an image that is being pulled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Layers(BTreeMap<String, Layer>);

/// A layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Layer {
    current: u64,
    total: u64,
    is_done: bool,
}

impl Layers {
    /// Takes a message of the engine.
    pub(super) fn see(&mut self, status: &PullStatus) {
        // The first message names the tag in place of a layer.
        if status.id.is_empty() || status.status.starts_with("Pulling from") {
            return;
        }
        let layer = self.0.entry(status.id.clone()).or_default();
        match status.status.as_str() {
            "Downloading" => {
                layer.current = status.progress.current;
                layer.total = layer.total.max(status.progress.total);
            }
            "Download complete" => layer.current = layer.total,
            "Pull complete" | "Already exists" => {
                layer.current = layer.total;
                layer.is_done = true;
            }
            _ => {}
        }
    }

    /// The progress as an event of a task shows it.
    pub(super) fn message(&self) -> String {
        let done = self.0.values().filter(|layer| layer.is_done).count();
        let sum = |bytes: fn(&Layer) -> u64| self.0.values().map(bytes).sum::<u64>() / MB;
        let (current, total) = (sum(|layer| layer.current), sum(|layer| layer.total));
        format!("Docker image pull progress: {done} of {} layers, {current} of {total} MB", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn layers_and_bytes_are_counted() {
        let mut layers = Layers::default();
        for message in [
            json!({ "status": "Pulling from library/redis", "id": "7" }),
            json!({ "status": "Pulling fs layer", "id": "a" }),
            json!({ "status": "Already exists", "id": "b" }),
            json!({ "status": "Downloading", "id": "a", "progressDetail": { "current": 2_097_152, "total": 4_194_304 } }),
            json!({ "status": "Digest: sha256:0f" }),
        ] {
            layers.see(&serde_json::from_value(message).unwrap());
        }
        assert_eq!(layers.message(), "Docker image pull progress: 1 of 2 layers, 2 of 4 MB");
        layers.see(&serde_json::from_value(json!({ "status": "Pull complete", "id": "a" })).unwrap());
        assert_eq!(layers.message(), "Docker image pull progress: 2 of 2 layers, 4 of 4 MB");
    }
}
