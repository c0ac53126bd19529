//! The sources from which job versions were registered (N-27). They are stored for users only; no service uses them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Index, JobVersionKey, Text};

/// The source of a job, as the registering client sent it.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSource {
    /// The job file.
    pub text: Text,
    /// Its format, `hcl2` or `json`. Any other value is stored unchanged.
    pub format: Text,
    /// Variables that were set one by one. The client URL-escapes the values.
    pub variable_flags: Option<BTreeMap<Text, Text>>,
    /// The text of variable files.
    pub variables: Text,
}

impl JobSource {
    /// Converts a submission of the API. Returns `None` if it contains no job file.
    pub fn from_api(api: api_types::JobSubmission) -> Option<Self> {
        let text = api.source.filter(|text| !text.is_empty())?;
        let flags = api.variable_flags;
        Some(Self {
            text: text.into(),
            format: api.format.unwrap_or_default().into(),
            variable_flags: flags
                .map(|flags| flags.into_iter().map(|(name, value)| (name.into(), value.into())).collect()),
            variables: api.variables.unwrap_or_default().into(),
        })
    }

    /// Total size of its texts in bytes.
    pub fn size(&self) -> usize {
        let flags = self.variable_flags.iter().flatten().map(|(name, value)| name.len() + value.len());
        self.text.len() + self.variables.len() + flags.sum::<usize>()
    }
}

/// The source of one version of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSubmission {
    /// The version.
    pub version: JobVersionKey,
    /// The index at which the job's specification changed to it.
    pub job_modify_index: Index,
    /// The source.
    pub source: Arc<JobSource>,
    /// Whether the version was registered without a source and took over that of the previous version.
    #[serde(default)]
    pub is_copy: bool,
}

impl JobSubmission {
    /// Converts to the submission of the API. The values of variables are unchanged.
    pub fn to_api(&self) -> api_types::JobSubmission {
        let flags = self.source.variable_flags.as_ref();
        let flags = flags
            .map(|flags| flags.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect());
        api_types::JobSubmission {
            source: Some(self.source.text.to_string()),
            format: Some(self.source.format.to_string()),
            variable_flags: flags,
            variables: Some(self.source.variables.to_string()),
            namespace: Some(self.version.job.namespace.to_string()),
            job_id: Some(self.version.job.id.to_string()),
            version: Some(self.version.version),
            job_modify_index: Some(self.job_modify_index.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobKey;

    #[test]
    fn a_submission_goes_in_and_comes_out_with_its_version() {
        let api = api_types::JobSubmission {
            source: Some("job \"a\" {}".to_owned()),
            format: Some("hcl2".to_owned()),
            variable_flags: Some([("b".to_owned(), "x%20y".to_owned())].into()),
            ..api_types::JobSubmission::default()
        };
        let source = JobSource::from_api(api.clone()).expect("the submission contains a job file");
        assert_eq!(source.size(), 10 + 1 + 5);
        let version = JobVersionKey { job: JobKey::new("ns", "a"), create_index: Index(3), version: 2 };
        let submission =
            JobSubmission { version, job_modify_index: Index(7), source: Arc::new(source), is_copy: false };
        let expected = api_types::JobSubmission {
            variables: Some(String::new()),
            namespace: Some("ns".to_owned()),
            job_id: Some("a".to_owned()),
            version: Some(2),
            job_modify_index: Some(7),
            ..api
        };
        assert_eq!(submission.to_api(), expected);
    }

    #[test]
    fn without_a_job_file_there_is_no_source() {
        let format = Some("hcl2".to_owned());
        for source in [None, Some(String::new())] {
            let api = api_types::JobSubmission { source, format: format.clone(), ..Default::default() };
            assert_eq!(JobSource::from_api(api), None);
        }
    }
}
