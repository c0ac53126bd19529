//! Images without a registry: Debian from its packages, the official ones from `tests/images`, Drover's from its Dockerfile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::engine::Engine;
use super::{cache, make_dir, run};
use crate::skips::root;

/// The image that the others begin with.
pub const DEBIAN: &str = "debian:bookworm-slim";
/// The image that the Dockerfile compiles in.
pub const RUST: &str = "rust:1.95-bookworm";
/// What every machine that runs containers from here on has, beside what Debian calls minimal.
const PACKAGES: &str = "ca-certificates,tzdata,tini,busybox-static";
/// Certificates of the network that packages come by; builds may need them.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Where the binary in an image comes from.
#[derive(Debug, Clone)]
pub enum Binary {
    /// It is there.
    Prebuilt(PathBuf),
    /// The Dockerfile compiles it.
    Compiled,
}

/// Makes the Debian image. The first time that takes a minute and the network.
///
/// # Panics
/// If it cannot be made.
pub fn debian(engine: &Engine) {
    if has(engine, DEBIAN) {
        return;
    }
    let archive = cache().join("debian.tar");
    if !archive.exists() {
        let directory = tempfile::tempdir_in(cache()).expect("there is room for temporary files");
        let root = directory.path().join("root");
        let include = format!("--include={PACKAGES}");
        run(Command::new("debootstrap").args(["--variant=minbase", &include, "bookworm"]).arg(&root));
        let made = directory.path().join("debian.tar");
        run(Command::new("tar").arg("--create").arg("--file").arg(&made).arg("--directory").arg(&root).args(
            [
                "--exclude=./var/cache/*",
                "--exclude=./var/lib/apt/lists/*",
                "--exclude=./usr/share/doc/*",
                "--exclude=./usr/share/man/*",
                "--exclude=./usr/share/locale/*",
                ".",
            ],
        ));
        fs::rename(made, &archive).expect("a file can be renamed");
    }
    engine.run(&["import", "--change", "CMD [\"bash\"]", &archive.display().to_string(), DEBIAN]);
}

/// Makes an image that stands in for an official one, under its name.
///
/// # Panics
/// If there is nothing in `tests/images` to make it of.
pub fn official(engine: &Engine, name: &str) {
    let kind = name.split(':').next().unwrap_or(name);
    let directory = root().join("tests/images").join(kind);
    assert!(directory.is_dir(), "{} does not exist, of which {name} could be made", directory.display());
    let base = format!("BASE={DEBIAN}");
    let directory = directory.display().to_string();
    engine.run(&["build", "--network", "host", "--build-arg", &base, "--tag", name, &directory]);
}

/// Makes the image that the Dockerfile compiles in, of this machine's toolchain.
///
/// # Panics
/// If it cannot be made.
pub fn rust(engine: &Engine) {
    let toolchain = run(Command::new("rustc").args(["--print", "sysroot"]));
    let file = root().join("tests/images/rust/Dockerfile").display().to_string();
    let base = format!("BASE={DEBIAN}");
    engine.run(&[
        "build",
        "--network",
        "host",
        "--build-arg",
        &base,
        "--file",
        &file,
        "--tag",
        RUST,
        &toolchain,
    ]);
}

/// Builds one of the Dockerfile's targets under a name.
///
/// # Panics
/// If it cannot be built.
pub fn drover(engine: &Engine, binary: &Binary, target: &str, name: &str) {
    let dockerfile = root().join("Dockerfile").display().to_string();
    let mut arguments =
        vec!["build", "--network", "host", "--file", &dockerfile, "--target", target, "--tag", name];
    let context;
    match binary {
        Binary::Prebuilt(file) => {
            context = prebuilt(file);
            arguments.extend(["--build-arg", "BINARY=prebuilt"]);
        }
        Binary::Compiled => context = root(),
    }
    let secret = format!("id=ca,src={CERTIFICATES}");
    if Path::new(CERTIFICATES).exists() {
        arguments.extend(["--secret", &secret]);
    }
    let context = context.display().to_string();
    arguments.push(&context);
    engine.run(&arguments);
}

/// A directory with the stripped binary and the list of its parts.
fn prebuilt(binary: &Path) -> PathBuf {
    let directory = cache().join("prebuilt");
    make_dir(&directory);
    run(Command::new("strip").arg("-o").arg(directory.join("drover")).arg(binary));
    let parts = run(&mut Command::new(root().join(".ci/sbom")));
    fs::write(directory.join("sbom.cdx.json"), parts).expect("a file can be written");
    directory
}

/// Whether the engine has an image of that name.
fn has(engine: &Engine, name: &str) -> bool {
    engine.docker(&["image", "inspect", name]).output().is_ok_and(|output| output.status.success())
}
