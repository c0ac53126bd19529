//! Names of images. Pure.

/// The registry of images whose names begin with none.
const DEFAULT_REGISTRY: &str = "docker.io";
/// The tag of images whose names have none.
const LATEST: &str = "latest";

/// The name of an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ImageName {
    /// The name without tag and digest, such as `registry.example:5000/team/web`.
    pub(super) repository: String,
    /// The tag, if the name has one.
    pub(super) tag: Option<String>,
    /// The digest, if the name has one.
    pub(super) digest: Option<String>,
}

impl ImageName {
    /// Reads a name. A leading `https://` does not belong to it.
    pub(super) fn read(text: &str) -> Self {
        let text = text.strip_prefix("https://").unwrap_or(text);
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest.to_owned())),
            None => (text, None),
        };
        // A colon before a slash belongs to the registry's port.
        let (repository, tag) = match name.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag.to_owned())),
            Some(_) | None => (name, None),
        };
        Self { repository: repository.to_owned(), tag, digest }
    }

    /// The name as the engine finds it.
    pub(super) fn full(&self) -> String {
        let tag = self.tag.as_ref().map(|tag| format!(":{tag}")).unwrap_or_default();
        match &self.digest {
            Some(digest) => format!("{}{tag}@{digest}", self.repository),
            None if self.tag.is_none() => format!("{}:{LATEST}", self.repository),
            None => format!("{}{tag}", self.repository),
        }
    }

    /// The tag or digest that is pulled.
    pub(super) fn version(&self) -> &str {
        self.digest.as_deref().or(self.tag.as_deref()).unwrap_or(LATEST)
    }

    /// Whether the name may stand for another image tomorrow, so that one that is there is not used.
    pub(super) fn is_latest(&self) -> bool {
        self.digest.is_none() && self.version() == LATEST
    }

    /// The registry, such as `docker.io`.
    pub(super) fn registry(&self) -> &str {
        match self.repository.split_once('/') {
            Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
            Some(_) | None => DEFAULT_REGISTRY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        for (text, repository, version, registry, full) in [
            ("redis", "redis", "latest", "docker.io", "redis:latest"),
            ("redis:7", "redis", "7", "docker.io", "redis:7"),
            ("https://quay.io/a/b:1", "quay.io/a/b", "1", "quay.io", "quay.io/a/b:1"),
            ("localhost/a", "localhost/a", "latest", "localhost", "localhost/a:latest"),
            ("r.example:5000/a", "r.example:5000/a", "latest", "r.example:5000", "r.example:5000/a:latest"),
            ("a/b@sha256:0f", "a/b", "sha256:0f", "docker.io", "a/b@sha256:0f"),
            ("a/b:1@sha256:0f", "a/b", "sha256:0f", "docker.io", "a/b:1@sha256:0f"),
        ] {
            let name = ImageName::read(text);
            let found = (name.repository.as_str(), name.version(), name.registry(), name.full());
            assert_eq!(found, (repository, version, registry, full.to_owned()), "{text}");
        }
    }

    #[test]
    fn only_the_tag_latest_is_looked_for_again() {
        for (text, is_latest) in [("a", true), ("a:latest", true), ("a:1", false), ("a@sha256:0f", false)] {
            assert_eq!(ImageName::read(text).is_latest(), is_latest, "{text}");
        }
    }
}
