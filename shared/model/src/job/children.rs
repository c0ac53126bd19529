//! Children: the jobs that a periodic job launches (N-23.4) and that dispatches of a parameterized job make (N-24).

use std::collections::{BTreeMap, BTreeSet};

use super::{Job, JobSpec, JobStatus, ParameterizedJobConfig, PayloadRule};
use crate::text::quoted;
use crate::{Text, Timestamp};

/// The longest payload of a dispatch, in bytes (N-24.2).
pub const PAYLOAD_BYTES_MAX: usize = 16_384;

/// The input of a dispatch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dispatch {
    /// Id of the child, from [`dispatched_id`].
    pub id: Text,
    /// The payload. An empty one counts as none.
    pub payload: Option<api_types::Base64>,
    /// Values for the meta keys that the job asks for or allows.
    pub meta: BTreeMap<Text, Text>,
    /// Priority of the child; `None` uses the parent's.
    pub priority: Option<u16>,
    /// Token by which a repeated dispatch is recognized; empty if there is none.
    pub idempotency_token: Text,
}

/// Why a job cannot be dispatched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DispatchError {
    /// There is no such job.
    #[error("parameterized job not found")]
    NotFound,
    /// The job is not parameterized, or was made by a dispatch itself.
    #[error("Specified job {} is not a parameterized job", quoted(.0))]
    NotParameterized(Text),
    /// The job is stopped.
    #[error("Specified job {} is stopped", quoted(.0))]
    Stopped(Text),
    /// There is no payload.
    #[error("Payload is not provided but required by parameterized job")]
    PayloadMissing,
    /// There is a payload.
    #[error("Payload provided but forbidden by parameterized job")]
    PayloadForbidden,
    /// The payload is too long.
    #[error("Payload exceeds maximum size; {0} > {PAYLOAD_BYTES_MAX}")]
    PayloadTooLong(usize),
    /// There are meta keys that the job does not allow.
    #[error("Dispatch request included unpermitted metadata keys: [{}]", .0.join(" "))]
    KeysUnpermitted(Vec<String>),
    /// Meta keys are missing.
    #[error("Dispatch did not provide required meta keys: [{}]", .0.join(" "))]
    KeysMissing(Vec<String>),
}

/// Id of the child that a launch makes: the parent's id and the second of the launch (N-23.4).
pub fn launched_id(parent: &str, moment: Timestamp) -> Text {
    format!("{parent}/periodic-{}", moment.as_secs()).into()
}

/// Id of the child that a dispatch makes: the parent's id, a prefix that the caller may choose, the second of the dispatch,
/// and a number that makes it unique (N-24.6).
pub fn dispatched_id(parent: &str, prefix: &str, moment: Timestamp, unique: u32) -> Text {
    let dash = if prefix.is_empty() { "" } else { "-" };
    format!("{parent}/dispatch-{prefix}{dash}{}-{unique:08x}", moment.as_secs()).into()
}

impl JobSpec {
    /// The child that this periodic job launches at a moment (N-23.4).
    pub fn launch(&self, moment: Timestamp) -> Self {
        let id = launched_id(&self.id, moment);
        Self {
            name: Text::clone(&id),
            id,
            parent_id: Text::clone(&self.id),
            periodic: None,
            ..Self::clone(self)
        }
    }

    /// Checks whether a dispatch fits this job, in the order in which the reference reports problems (N-24.1 to N-24.3).
    ///
    /// # Errors
    /// The first problem.
    pub fn check_dispatch<'k>(
        &self,
        payload_bytes: usize,
        keys: impl IntoIterator<Item = &'k str>,
    ) -> Result<(), DispatchError> {
        let Some(config) = self.parameterized_job.as_ref().filter(|_| !self.dispatched) else {
            return Err(DispatchError::NotParameterized(Text::clone(&self.id)));
        };
        if self.stop {
            return Err(DispatchError::Stopped(Text::clone(&self.id)));
        }
        match config.payload.unwrap_or(PayloadRule::Optional) {
            PayloadRule::Required if payload_bytes == 0 => return Err(DispatchError::PayloadMissing),
            PayloadRule::Forbidden if payload_bytes > 0 => return Err(DispatchError::PayloadForbidden),
            PayloadRule::Required | PayloadRule::Forbidden | PayloadRule::Optional => {}
        }
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(DispatchError::PayloadTooLong(payload_bytes));
        }
        check_keys(config, &keys.into_iter().collect())
    }

    /// The child that a dispatch of this job makes (N-24.6). It keeps the `parameterized` block, from which agents know the
    /// optional meta keys.
    pub fn dispatch(&self, dispatch: Dispatch) -> Self {
        let Dispatch { id, payload, meta, priority, idempotency_token } = dispatch;
        let mut child = Self {
            name: Text::clone(&id),
            id,
            parent_id: Text::clone(&self.id),
            dispatched: true,
            dispatch_idempotency_token: idempotency_token,
            payload: payload.filter(|payload| !payload.0.is_empty()),
            priority: priority.unwrap_or(self.priority),
            ..Self::clone(self)
        };
        child.meta.extend(meta);
        child
    }
}

impl Job {
    /// Whether this child is a dispatch that has not begun and has not been stopped, so that, unless it has an evaluation,
    /// the limit on running children holds it back.
    pub fn may_be_held(&self) -> bool {
        let spec = &self.spec;
        spec.dispatched && spec.template().is_none() && !spec.stop && self.status == JobStatus::Pending
    }
}

fn check_keys(config: &ParameterizedJobConfig, keys: &BTreeSet<&str>) -> Result<(), DispatchError> {
    let listed = |list: &[Text], key: &str| list.iter().any(|listed| **listed == *key);
    let is_permitted = |key: &str| listed(&config.meta_required, key) || listed(&config.meta_optional, key);
    let unpermitted: Vec<_> = keys.iter().filter(|key| !is_permitted(key)).map(ToString::to_string).collect();
    if !unpermitted.is_empty() {
        return Err(DispatchError::KeysUnpermitted(unpermitted));
    }
    let required: BTreeSet<&str> = config.meta_required.iter().map(|key| &**key).collect();
    let missing: Vec<_> = required.difference(keys).map(ToString::to_string).collect();
    if missing.is_empty() { Ok(()) } else { Err(DispatchError::KeysMissing(missing)) }
}

#[cfg(test)]
mod tests {
    use api_types::Base64;

    use super::*;
    use crate::job::PeriodicConfig;

    fn text(words: &[&str]) -> Vec<Text> {
        words.iter().map(|word| Text::from(*word)).collect()
    }

    fn call(payload: PayloadRule) -> JobSpec {
        JobSpec {
            id: "call".into(),
            priority: 50,
            meta: [("a", "parent"), ("z", "parent")].map(|(key, value)| (key.into(), value.into())).into(),
            parameterized_job: Some(ParameterizedJobConfig {
                payload: Some(payload),
                meta_required: text(&["b", "a"]),
                meta_optional: text(&["c"]),
                ..ParameterizedJobConfig::default()
            }),
            ..JobSpec::default()
        }
    }

    #[test]
    fn a_launch_is_a_copy_without_the_schedule() {
        // Child: the id names parent and moment, name = id, the periodic block is removed (N-23.4).
        let parent = JobSpec {
            id: "cron".into(),
            name: "Cron".into(),
            periodic: Some(PeriodicConfig::default()),
            priority: 70,
            ..JobSpec::default()
        };
        let child = parent.launch(Timestamp(1_700_000_000_999_999_999));
        let id = Text::from("cron/periodic-1700000000");
        let expected =
            JobSpec { id: id.clone(), name: id, parent_id: "cron".into(), periodic: None, ..parent };
        assert_eq!(child, expected);
    }

    #[test]
    fn a_dispatch_is_a_copy_with_its_input() {
        // Child: Dispatched, the given meta over the parent's, the parameterized block kept (N-24.3, N-24.6).
        let parent = call(PayloadRule::Optional);
        let at = Timestamp::from_secs(1_700_000_000);
        assert_eq!(dispatched_id("call", "", at, 0xab), "call/dispatch-1700000000-000000ab");
        let id = dispatched_id("call", "x y", at, u32::MAX);
        assert_eq!(id, "call/dispatch-x y-1700000000-ffffffff");
        let child = parent.dispatch(Dispatch {
            id: id.clone(),
            payload: Some(Base64(b"input".to_vec())),
            meta: [("a".into(), "given".into())].into(),
            priority: Some(80),
            idempotency_token: "token".into(),
        });
        assert_eq!([&child.id, &child.name], [&id, &id]);
        assert_eq!(child.parent_id, "call");
        assert!(child.dispatched && child.template().is_none());
        assert_eq!(child.parameterized_job, parent.parameterized_job);
        assert_eq!(child.payload, Some(Base64(b"input".to_vec())));
        assert_eq!((&*child.meta["a"], &*child.meta["z"]), ("given", "parent"));
        assert_eq!((child.priority, &*child.dispatch_idempotency_token), (80, "token"));
        let plain = parent.dispatch(Dispatch { payload: Some(Base64(vec![])), ..Dispatch::default() });
        assert_eq!((plain.payload, plain.priority), (None, 50));
    }

    #[test]
    fn a_dispatch_that_does_not_fit_is_refused() {
        let refused = |spec: &JobSpec, bytes: usize, keys: &[&str]| {
            spec.check_dispatch(bytes, keys.iter().copied()).unwrap_err().to_string()
        };
        // N-24.1.
        let plain = JobSpec { id: "web".into(), ..JobSpec::default() };
        assert_eq!(refused(&plain, 0, &[]), r#"Specified job "web" is not a parameterized job"#);
        let child = JobSpec { dispatched: true, ..call(PayloadRule::Optional) };
        assert_eq!(refused(&child, 0, &[]), r#"Specified job "call" is not a parameterized job"#);
        let stopped = JobSpec { stop: true, ..call(PayloadRule::Optional) };
        assert_eq!(refused(&stopped, 0, &[]), r#"Specified job "call" is stopped"#);
        // N-24.2.
        let text = "Payload is not provided but required by parameterized job";
        assert_eq!(refused(&call(PayloadRule::Required), 0, &["a", "b"]), text);
        let text = "Payload provided but forbidden by parameterized job";
        assert_eq!(refused(&call(PayloadRule::Forbidden), 1, &["a", "b"]), text);
        let text = "Payload exceeds maximum size; 16385 > 16384";
        assert_eq!(refused(&call(PayloadRule::Optional), 16_385, &[]), text);
        assert_eq!(call(PayloadRule::Required).check_dispatch(16_384, ["a", "b"]), Ok(()));
        // N-24.3.
        let text = "Dispatch request included unpermitted metadata keys: [x z]";
        assert_eq!(refused(&call(PayloadRule::Optional), 0, &["z", "x", "a"]), text);
        let text = "Dispatch did not provide required meta keys: [a b]";
        assert_eq!(refused(&call(PayloadRule::Optional), 0, &["c"]), text);
        assert_eq!(call(PayloadRule::Optional).check_dispatch(0, ["a", "b", "c"]), Ok(()));
    }
}
