//! Settings of host volumes (A-23.3), checked. Pure.

use std::path::PathBuf;
use std::str::FromStr;

use model::Text;

/// A host volume that is part of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostVolumeArgs {
    /// Its name.
    pub(crate) name: Text,
    /// Its directory.
    pub(crate) path: PathBuf,
    /// Whether jobs may not write to it.
    pub(crate) read_only: bool,
}

impl HostVolumeArgs {
    /// Checks the settings of a volume.
    ///
    /// # Errors
    /// What is wrong. The message names the volume.
    pub fn new(name: &str, path: &str, read_only: bool) -> Result<Self, String> {
        if name.is_empty() {
            return Err("a host volume needs a name".to_owned());
        }
        if !path.starts_with('/') {
            return Err(format!("host volume {name:?}: expected an absolute path, not {path:?}"));
        }
        Ok(Self { name: name.into(), path: path.into(), read_only })
    }
}

impl FromStr for HostVolumeArgs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, path) = text.split_once('=').ok_or("expected name=path or name=path:ro")?;
        match path.strip_suffix(":ro") {
            Some(path) => Self::new(name, path, true),
            None => Self::new(name, path, false),
        }
    }
}

/// The checked settings of host volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeSettings {
    /// The volumes of the configuration.
    pub(crate) statics: Vec<HostVolumeArgs>,
    /// The directory in which plugins create volumes.
    pub(crate) volumes_dir: PathBuf,
    /// The directory with plugins.
    pub(crate) plugin_dir: PathBuf,
    /// Whether the servers delete the volumes of the node with the node.
    pub(crate) gc_on_node_gc: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_read_with_their_paths() {
        // A-23.3
        let read = |text: &str| text.parse::<HostVolumeArgs>();
        assert_eq!(read("data=/srv/data"), HostVolumeArgs::new("data", "/srv/data", false));
        assert_eq!(read("certs=/etc/certs:ro"), HostVolumeArgs::new("certs", "/etc/certs", true));
        for (text, error) in [
            ("data", "expected name=path or name=path:ro"),
            ("=/srv", "a host volume needs a name"),
            ("data=srv", r#"host volume "data": expected an absolute path, not "srv""#),
        ] {
            assert_eq!(read(text).unwrap_err(), error);
        }
    }
}
