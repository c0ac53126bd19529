//! Settings of host volumes (A-23.3): those that are part of the configuration, and where others are created.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use clap::Parser as _;

use crate::volumes::settings::{HostVolumeArgs, VolumeSettings};

/// Settings of host volumes.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Agent")]
pub struct VolumeArgs {
    /// A directory of the machine that jobs can mount, as `name=path`, or `name=path:ro` if they may not write to it; may
    /// be repeated.
    #[arg(
        long = "host-volume",
        env = "DROVER_HOST_VOLUMES",
        value_name = "NAME=PATH",
        value_delimiter = ','
    )]
    pub host_volumes: Vec<HostVolumeArgs>,
    /// Directory in which plugins create volumes; `host_volumes` in the data directory by default.
    #[arg(long = "host-volumes-dir", env = "DROVER_HOST_VOLUMES_DIR", value_name = "DIR")]
    pub host_volumes_dir: Option<PathBuf>,
    /// Directory with plugins that create volumes; `host_volume_plugins` in the data directory by default.
    #[arg(long = "host-volume-plugin-dir", env = "DROVER_HOST_VOLUME_PLUGIN_DIR", value_name = "DIR")]
    pub host_volume_plugin_dir: Option<PathBuf>,
    /// Forget the dynamic volumes of the node when the servers remove the node.
    #[arg(long = "gc-volumes-on-client-gc", env = "DROVER_GC_VOLUMES_ON_CLIENT_GC")]
    pub gc_volumes_on_client_gc: bool,
}

impl Default for VolumeArgs {
    /// The settings without any flags. Environment variables apply.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct NoFlags {
            #[command(flatten)]
            args: VolumeArgs,
        }
        NoFlags::parse_from(["agent"]).args
    }
}

impl VolumeArgs {
    /// Checks the settings.
    ///
    /// # Errors
    /// If two volumes have the same name.
    pub(crate) fn check(self, data_dir: &Path) -> anyhow::Result<VolumeSettings> {
        let Self { host_volumes, host_volumes_dir, host_volume_plugin_dir, gc_volumes_on_client_gc } = self;
        for (at, volume) in host_volumes.iter().enumerate() {
            let is_new = host_volumes.iter().take(at).all(|earlier| earlier.name != volume.name);
            ensure!(is_new, "--host-volume: there are two volumes {:?}", &*volume.name);
        }
        let dir = |given: Option<PathBuf>, name: &str| {
            std::path::absolute(given.unwrap_or_else(|| data_dir.join(name)))
        };
        Ok(VolumeSettings {
            statics: host_volumes,
            volumes_dir: dir(host_volumes_dir, "host_volumes")?,
            plugin_dir: dir(host_volume_plugin_dir, "host_volume_plugins")?,
            gc_on_node_gc: gc_volumes_on_client_gc,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_once_and_directories_are_in_the_data_directory() {
        let volumes = vec!["a=/a".parse::<HostVolumeArgs>().unwrap(); 2];
        let args = VolumeArgs { host_volumes: volumes, ..VolumeArgs::default() };
        let error = args.check(Path::new("/d")).unwrap_err().to_string();
        assert_eq!(error, r#"--host-volume: there are two volumes "a""#);
        let settings = VolumeArgs::default().check(Path::new("/d")).unwrap();
        assert_eq!(settings.volumes_dir, Path::new("/d/host_volumes"));
        assert_eq!(settings.plugin_dir, Path::new("/d/host_volume_plugins"));
    }
}
