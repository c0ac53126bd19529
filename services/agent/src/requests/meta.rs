//! Answers requests about the node's metadata. A change is on the disk before it is answered; the node is then
//! registered again.

use std::sync::Arc;

use bus::Request;
use model::node::NodeSpec;
use telemetry::chain;
use tokio::sync::watch;
use wire::meta::{self, ChangeNodeMeta, GetNodeMeta};
use wire::{Refusal, RefusalKind};

use crate::node::fingerprint::with_meta;
use crate::node::meta::{ChangeError, NodeMeta};

/// The metadata, and the specification that the node registers.
#[derive(Debug, Clone)]
pub(crate) struct MetaRequests {
    pub(crate) meta: Arc<NodeMeta>,
    pub(crate) spec: Arc<watch::Sender<Arc<NodeSpec>>>,
}

impl MetaRequests {
    /// Whether a request is about the metadata.
    pub(super) fn concerns(request: &Request) -> bool {
        request.is::<GetNodeMeta>() || request.is::<ChangeNodeMeta>()
    }

    /// Answers a request that is about the metadata.
    pub(super) async fn answer(self, request: Request) {
        if request.is::<GetNodeMeta>() {
            request.answer_with(async |GetNodeMeta {}| Ok(self.meta.shown())).await;
        } else {
            request.answer_with(async |ask: ChangeNodeMeta| self.change(ask).await).await;
        }
    }

    async fn change(&self, ask: ChangeNodeMeta) -> Result<meta::NodeMeta, Refusal> {
        let store = Arc::clone(&self.meta);
        let changed = tokio::task::spawn_blocking(move || store.change(ask.changes)).await;
        match changed {
            Ok(Ok(())) => {}
            Ok(Err(error @ ChangeError::TooLarge)) => return Err(refusal(RefusalKind::Invalid, &error)),
            Ok(Err(error @ ChangeError::Io(_))) => return Err(refusal(RefusalKind::NotReady, &error)),
            Err(error) => return Err(refusal(RefusalKind::NotReady, &error)),
        }
        // The contact with the servers follows the specification.
        self.spec.send_if_modified(|current| {
            let found = with_meta(NodeSpec::clone(current), self.meta.current().all());
            let is_changed = found.meta != current.meta;
            if is_changed {
                *current = Arc::new(found);
            }
            is_changed
        });
        Ok(self.meta.shown())
    }
}

fn refusal(kind: RefusalKind, error: &(dyn std::error::Error + 'static)) -> Refusal {
    Refusal { kind, message: chain(error).into() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::disk::store::Store;

    #[tokio::test]
    async fn a_change_reaches_the_specification_of_the_node() {
        //
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let meta = Arc::new(NodeMeta::load(&store, BTreeMap::new()));
        let before = with_meta(NodeSpec::default(), BTreeMap::new());
        let spec = Arc::new(watch::Sender::new(Arc::new(before.clone())));
        let mut receiver = spec.subscribe();
        let requests = MetaRequests { meta, spec };
        let ask = || ChangeNodeMeta { changes: BTreeMap::from([("rack".into(), Some("r7".into()))]) };
        let shown = requests.change(ask()).await.unwrap();
        assert_eq!(shown.meta.get("rack").map(|value| value.as_str()), Some("r7"));
        assert!(receiver.has_changed().unwrap());
        let after = Arc::clone(&receiver.borrow_and_update());
        assert_eq!(after.meta, shown.meta);
        assert_ne!(after.computed_class, before.computed_class);
        requests.change(ask()).await.unwrap();
        assert!(!receiver.has_changed().unwrap(), "nothing is different");
    }
}
