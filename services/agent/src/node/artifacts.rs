//! Settings of artifacts: the limits of their downloads.

use std::time::Duration;

use clap::Parser as _;

use crate::artifacts::Limits;

/// The defaults: 30 minutes, 100 GB, 4096 files.
const TIME_MS: u32 = 30 * 60 * 1_000;
const BYTES: u64 = 100_000_000_000;
const FILES: u64 = 4_096;

/// Settings of artifacts.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Agent")]
pub struct ArtifactArgs {
    /// Largest download of an artifact, in bytes.
    #[arg(long, env = "DROVER_ARTIFACT_DOWNLOAD_BYTES_MAX", default_value_t = BYTES)]
    pub artifact_download_bytes_max: u64,
    /// Longest download of an artifact by HTTP, in milliseconds.
    #[arg(long, env = "DROVER_ARTIFACT_HTTP_TIMEOUT_MS", default_value_t = TIME_MS)]
    pub artifact_http_timeout_ms: u32,
    /// Longest download of an artifact by Git, in milliseconds.
    #[arg(long, env = "DROVER_ARTIFACT_GIT_TIMEOUT_MS", default_value_t = TIME_MS)]
    pub artifact_git_timeout_ms: u32,
    /// Most bytes that the archive of an artifact may contain.
    #[arg(long, env = "DROVER_ARTIFACT_UNPACKED_BYTES_MAX", default_value_t = BYTES)]
    pub artifact_unpacked_bytes_max: u64,
    /// Most files, directories and links that the archive of an artifact may contain.
    #[arg(long, env = "DROVER_ARTIFACT_UNPACKED_FILES_MAX", default_value_t = FILES)]
    pub artifact_unpacked_files_max: u64,
}

impl Default for ArtifactArgs {
    /// The settings without any flags. Environment variables apply.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct NoFlags {
            #[command(flatten)]
            args: ArtifactArgs,
        }
        NoFlags::parse_from(["agent"]).args
    }
}

/// The limits that the settings mean.
pub(super) fn limits_of(args: &ArtifactArgs) -> Limits {
    let millis = |number: u32| Duration::from_millis(number.into());
    Limits {
        download_bytes: args.artifact_download_bytes_max,
        http_time: millis(args.artifact_http_timeout_ms),
        git_time: millis(args.artifact_git_timeout_ms),
        unpacked_bytes: args.artifact_unpacked_bytes_max,
        unpacked_files: args.artifact_unpacked_files_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //
    #[test]
    fn downloads_have_limits() {
        let args = ArtifactArgs { artifact_git_timeout_ms: 5_000, ..ArtifactArgs::default() };
        let limits = limits_of(&args);
        assert_eq!((limits.http_time.as_secs(), limits.git_time.as_secs()), (1_800, 5));
        assert_eq!((limits.download_bytes, limits.unpacked_bytes), (100_000_000_000, 100_000_000_000));
        assert_eq!(limits.unpacked_files, 4_096);
    }
}
