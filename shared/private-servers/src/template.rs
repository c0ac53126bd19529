//! The files of a new PostgreSQL: made by initdb, or for temporary servers copied from ones that it made earlier.
//!
//! Copies share the password and the system identifier of their template, and are flushed to no disk: good for files
//! that go with the process, not for a cluster that stays.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use nix::unistd::{Uid, User};

use crate::{error::Error, places, programs};

/// The database's only user at first.
pub(crate) const USER: &str = "drover";

/// Fills `home` with `data` and `password`, by initdb. `data` appears when it is whole.
pub(crate) fn make(home: &Path, bin: &Path, user: Option<&User>, synced: bool) -> Result<(), Error> {
    let unfinished = home.join("data.new");
    remove(&unfinished)?;
    let password_file = home.join("password");
    places::write_private(&password_file, &places::password()?, user)?;
    let (path, password_path) = (text(&unfinished)?, text(&password_file)?);
    let mut arguments = vec!["--pgdata", path, "--username", USER, "--pwfile", password_path];
    arguments.extend(["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"]);
    if !synced {
        arguments.push("--no-sync");
    }
    programs::run("initdb", bin, &arguments, &[], user)?;
    let data = home.join("data");
    fs::rename(&unfinished, &data).map_err(Error::file("make", data))
}

/// Fills `home` like [`make`] does, from the template if there is one. If not, makes one for the next time.
pub(crate) fn copy(home: &Path, bin: &Path, user: Option<&User>) -> Result<(), Error> {
    let version = programs::run("postgres", bin, &["--version"], &[], None)?;
    let Some(template) = place(&version) else { return make(home, bin, user, false) };
    if template.is_dir() {
        copy_tree(&template, home, user)?;
        return Ok(());
    }
    make(home, bin, user, false)?;
    if let Err(error) = keep(home, &template) {
        // The next one takes a second longer, that is all.
        tracing::debug!(error = %error, template = %template.display(), "cannot keep a template of a database");
    }
    Ok(())
}

/// Where the template for this version is kept: in the cache of the user that we are, so that nobody else writes it.
fn place(version: &str) -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    let version = version.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(cache.join("drover").join(format!("postgres-{}-{}", version.trim(), Uid::effective())))
}

fn keep(home: &Path, template: &Path) -> Result<(), Error> {
    let cache = template.parent().expect("a template has a name in the cache");
    fs::create_dir_all(cache).map_err(Error::file("make", cache))?;
    let unfinished = template.with_extension(places::password()?);
    let kept = places::make_private(&unfinished, None)
        .and_then(|()| copy_tree(home, &unfinished, None))
        .and_then(|()| fs::rename(&unfinished, template).map_err(Error::file("make", template)));
    if kept.is_err() {
        // Another process may have been first.
        remove(&unfinished)?;
    }
    kept
}

/// Copies what is in the directory `from` into the directory `to`, for `user` to own.
fn copy_tree(from: &Path, to: &Path, user: Option<&User>) -> Result<(), Error> {
    for entry in fs::read_dir(from).map_err(Error::file("read", from))? {
        let entry = entry.map_err(Error::file("read", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(Error::file("read", &source))?.is_dir() {
            places::make_private(&target, user)?;
            copy_tree(&source, &target, user)?;
        } else {
            fs::copy(&source, &target).map_err(Error::file("copy", &source))?;
            places::give(&target, user)?;
        }
    }
    Ok(())
}

fn remove(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", directory)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn text(path: &Path) -> Result<&str, Error> {
    let not_text = || io::Error::new(io::ErrorKind::InvalidFilename, "its name is not UTF-8");
    path.to_str().ok_or_else(not_text).map_err(Error::file("use", path))
}
