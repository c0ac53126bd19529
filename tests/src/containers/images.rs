//! Builds images without a registry: Debian's from its packages, replacements of official images from `tests/images`,
//! and Drover's from its Dockerfile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::engine::Engine;
use super::{cache, make_dir, run};
use crate::skips::root;

/// The base image of the others.
pub const DEBIAN: &str = "debian:bookworm-slim";
/// The image in which the Dockerfile compiles.
pub const RUST: &str = "rust:1.95-bookworm";
/// Packages that are added to Debian's minimal system, as the official image is used in production with them.
const PACKAGES: &str = "ca-certificates,tzdata,tini,busybox-static";
/// CA certificates of the network from which packages come. Builds may need them.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The source of the binary in an image.
#[derive(Debug, Clone)]
pub enum Binary {
    /// An existing binary.
    Prebuilt(PathBuf),
    /// The Dockerfile compiles the binary.
    Compiled,
}

/// Makes the Debian image. The first call takes a minute and needs the network.
///
/// # Panics
/// If the image cannot be made.
pub fn debian(engine: &Engine) {
    if has(engine, DEBIAN) {
        return;
    }
    let archive = cache().join("debian.tar");
    if !archive.exists() {
        let directory = tempfile::tempdir_in(cache()).expect("a temporary directory can be created");
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

/// Makes an image that replaces an official one, under the same name.
///
/// # Panics
/// If `tests/images` has no directory for it.
pub fn official(engine: &Engine, name: &str) {
    let kind = name.split(':').next().unwrap_or(name);
    let directory = root().join("tests/images").join(kind);
    assert!(directory.is_dir(), "cannot make {name}: {} does not exist", directory.display());
    let base = format!("BASE={DEBIAN}");
    let directory = directory.display().to_string();
    engine.run(&["build", "--network", "host", "--build-arg", &base, "--tag", name, &directory]);
}

/// Makes the image in which the Dockerfile compiles, from this machine's toolchain.
///
/// # Panics
/// If the image cannot be made.
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
/// If the image cannot be built.
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

/// Returns a directory with the binary, without its debug information, and its software bill of materials.
fn prebuilt(binary: &Path) -> PathBuf {
    let directory = cache().join("prebuilt");
    make_dir(&directory);
    run(Command::new("strip").arg("--strip-debug").arg("-o").arg(directory.join("drover")).arg(binary));
    let parts = run(&mut Command::new(root().join(".ci/sbom")));
    fs::write(directory.join("sbom.cdx.json"), parts).expect("a file can be written");
    directory
}

/// Whether the engine has an image with that name.
fn has(engine: &Engine, name: &str) -> bool {
    engine.docker(&["image", "inspect", name]).output().is_ok_and(|output| output.status.success())
}
