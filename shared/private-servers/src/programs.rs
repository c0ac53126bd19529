//! Finds the servers' programs, and runs those that end by themselves.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::unistd::User;

use crate::{error::Error, guard::isolate};

/// Directory of PostgreSQL on Debian, with one subdirectory for each major version.
const DEBIAN_POSTGRES: &str = "/usr/lib/postgresql";

/// The directory with PostgreSQL's programs: Debian's directory of the major version `wanted` if it exists, otherwise
/// the one in PATH, otherwise Debian's newest.
pub(crate) fn postgres(wanted: Option<u32>) -> Result<PathBuf, Error> {
    let mut majors: Vec<(u32, PathBuf)> = fs::read_dir(DEBIAN_POSTGRES)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| has_postgres(bin))
        .collect();
    majors.sort();
    if let Some((_, bin)) = majors.iter().find(|(major, _)| Some(*major) == wanted) {
        return Ok(bin.clone());
    }
    let from_path = find_in_path("postgres").and_then(|program| Some(program.parent()?.to_owned()));
    from_path
        .filter(|bin| has_postgres(bin))
        .or_else(|| majors.pop().map(|(_, bin)| bin))
        .ok_or(Error::ProgramMissing { program: "postgres", package: "postgresql" })
}

fn has_postgres(bin: &Path) -> bool {
    ["postgres", "initdb", "createdb", "psql"].iter().all(|program| bin.join(program).is_file())
}

/// The path of nats-server.
pub(crate) fn nats_server() -> Result<PathBuf, Error> {
    find_in_path("nats-server")
        .ok_or(Error::ProgramMissing { program: "nats-server", package: "nats-server" })
}

/// Finds a program in PATH and in the directories for daemons, which users other than root often lack. Resolves links.
fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin"].map(PathBuf::from))
        .filter_map(|directory| directory.join(program).canonicalize().ok())
        .find(|found| found.is_file())
}

/// Runs a program to its end, and returns its standard output.
pub(crate) fn run(
    program: &'static str,
    bin: &Path,
    arguments: &[&str],
    environment: &[(&str, &str)],
    user: Option<&User>,
) -> Result<String, Error> {
    let mut command = Command::new(bin.join(program));
    isolate(&mut command, user);
    command.args(arguments).envs(environment.iter().copied());
    let output = command.output().map_err(|source| Error::Run { program, source })?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Failed { program, output });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
