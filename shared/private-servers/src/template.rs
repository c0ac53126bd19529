//! The files of a new PostgreSQL, created by initdb. Temporary servers copy them from a template that initdb created
//! earlier.
//!
//! Copies share the password and the system identifier of their template, and are not flushed to disk. They are
//! suitable for temporary files, not for a persistent cluster.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use nix::unistd::{Uid, User};

use crate::{error::Error, host, programs};

/// Name of the initial user, the administrator.
pub(crate) const USER: &str = "drover";

/// Creates `data` and `password` in `home`, by initdb. `data` appears only when it is complete.
pub(crate) fn create(home: &Path, bin: &Path, user: Option<&User>, synced: bool) -> Result<(), Error> {
    let unfinished = home.join("data.new");
    remove(&unfinished)?;
    let password_file = home.join("password");
    host::write_private(&password_file, &host::password()?, user)?;
    let (path, password_path) = (text(&unfinished)?, text(&password_file)?);
    let mut arguments = vec!["--pgdata", path, "--username", USER, "--pwfile", password_path];
    arguments.extend(["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"]);
    if !synced {
        arguments.push("--no-sync");
    }
    programs::run("initdb", bin, &arguments, &[], user)?;
    let data = home.join("data");
    fs::rename(&unfinished, &data).map_err(Error::file("create", data))
}

/// Fills `home` as [`create`] does, from the template if there is one. Otherwise creates the template for the next
/// call.
pub(crate) fn copy(home: &Path, bin: &Path, user: Option<&User>) -> Result<(), Error> {
    let version = programs::run("postgres", bin, &["--version"], &[], None)?;
    let Some(template) = template_path(&version) else { return create(home, bin, user, false) };
    if template.is_dir() {
        copy_tree(&template, home, user)?;
        return Ok(());
    }
    create(home, bin, user, false)?;
    if let Err(error) = save_template(home, &template) {
        // Without a template, only the next call takes a second longer.
        tracing::debug!(error = %error, template = %template.display(), "cannot save a template of a database");
    }
    Ok(())
}

/// The path of the template for this version. It is in the cache of the current user, so that other users cannot write it.
fn template_path(version: &str) -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    let version = version.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(cache.join("drover").join(format!("postgres-{}-{}", version.trim(), Uid::effective())))
}

fn save_template(home: &Path, template: &Path) -> Result<(), Error> {
    let cache = template.parent().expect("a template's path has a parent");
    fs::create_dir_all(cache).map_err(Error::file("create", cache))?;
    let unfinished = template.with_extension(host::password()?);
    let result = host::create_private_dir(&unfinished, None)
        .and_then(|()| copy_tree(home, &unfinished, None))
        .and_then(|()| fs::rename(&unfinished, template).map_err(Error::file("create", template)));
    if result.is_err() {
        // Another process may have been faster.
        remove(&unfinished)?;
    }
    result
}

/// Copies the contents of the directory `from` into the directory `to`, with `user` as the owner.
fn copy_tree(from: &Path, to: &Path, user: Option<&User>) -> Result<(), Error> {
    for entry in fs::read_dir(from).map_err(Error::file("read", from))? {
        let entry = entry.map_err(Error::file("read", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(Error::file("read", &source))?.is_dir() {
            host::create_private_dir(&target, user)?;
            copy_tree(&source, &target, user)?;
        } else {
            fs::copy(&source, &target).map_err(Error::file("copy", &source))?;
            host::change_owner(&target, user)?;
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
