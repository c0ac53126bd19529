//! Tests of archives that would harm the node.

use std::fs;
use std::io::{Cursor, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ::tar::{Builder, EntryType, Header};
use ::zip::write::SimpleFileOptions;
use ::zip::{CompressionMethod, ZipWriter};

use super::*;
use crate::artifacts::format::Compression;
use crate::disk::tree::OpenDir;

/// An entry of a tar archive, with any name.
fn entry(kind: EntryType, name: &str, target: &str, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    let field = &mut header.as_old_mut().name;
    field[..name.len()].copy_from_slice(name.as_bytes());
    let field = &mut header.as_old_mut().linkname;
    field[..target.len()].copy_from_slice(target.as_bytes());
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// A directory `out` beside a file `secret`, and what unpacking there says.
fn unpacked(format: Format, packed: &[u8], budget: Budget) -> (tempfile::TempDir, Result<(), String>) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("out")).unwrap();
    fs::write(dir.path().join("packed"), packed).unwrap();
    let out = OpenDir::open(&dir.path().join("out")).unwrap();
    let file = File::open(dir.path().join("packed")).unwrap();
    let done = unpack(format, file, "inner", &mut Sink::new(&out, budget));
    (dir, done.map_err(|error| error.to_string()))
}

fn ample() -> Budget {
    Budget::new(1 << 30, 100)
}

fn tar_of(entries: &[Vec<u8>]) -> (tempfile::TempDir, Result<(), String>) {
    unpacked(Format::Tar(None), &archive(entries), ample())
}

//
#[test]
fn no_path_leads_out_of_an_archive() {
    for name in ["../x", "/x", "a/../../x"] {
        let (dir, done) = tar_of(&[entry(EntryType::Regular, name, "", b"x")]);
        assert_eq!(done, Err(format!("\"{name}\" leads out of the archive")));
        assert!(!dir.path().join("x").exists());
    }
}

//
#[test]
fn links_stay_inside_and_are_not_written_through() {
    for target in ["..", "/etc", "a/../..", "../a"] {
        let (_, done) = tar_of(&[entry(EntryType::Symlink, "link", target, b"")]);
        assert_eq!(done, Err("\"link\" leads out of the archive".to_owned()), "{target}");
    }
    let (dir, done) = tar_of(&[
        entry(EntryType::Directory, "a/", "", b""),
        entry(EntryType::Regular, "b", "", b"content"),
        entry(EntryType::Symlink, "a/link", "../b", b""),
        entry(EntryType::Link, "a/copy", "b", b""),
    ]);
    assert_eq!(done, Ok(()));
    assert_eq!(fs::read_to_string(dir.path().join("out/a/link")).unwrap(), "content");
    assert_eq!(fs::read_to_string(dir.path().join("out/a/copy")).unwrap(), "content");
    let through = [entry(EntryType::Symlink, "l", "d", b""), entry(EntryType::Regular, "l/x", "", b"x")];
    assert!(tar_of(&through).1.is_err());
    let hard = tar_of(&[entry(EntryType::Link, "copy", "../packed", b"")]);
    assert_eq!(hard.1, Err("\"../packed\" leads out of the archive".to_owned()));
    let device = tar_of(&[entry(EntryType::Char, "null", "", b"")]);
    assert_eq!(device.1, Err("\"null\" is neither a file, a directory nor a link".to_owned()));
}

#[test]
fn a_link_is_inside_whatever_other_links_there_are() {
    for (depth, target, inside) in [
        (0, "a/b", true),
        (0, "..", false),
        (1, "..", true),
        (1, "../../x", false),
        (3, "a/../x", false),
        (3, "/x", false),
        (0, "", false),
        (0, "./a", true),
    ] {
        assert_eq!(stays_inside(depth, Path::new(target)), inside, "{depth} {target}");
    }
}

//
#[test]
fn archives_have_limits() {
    let files: Vec<_> =
        (0..3).map(|number| entry(EntryType::Regular, &number.to_string(), "", b"12345")).collect();
    let with = |budget| unpacked(Format::Tar(None), &archive(&files), budget).1;
    assert_eq!(with(Budget::new(15, 3)), Ok(()));
    assert_eq!(with(Budget::new(14, 3)), Err("the archive contains more than 14 bytes".to_owned()));
    assert_eq!(with(Budget::new(15, 2)), Err("the archive has more than 2 entries".to_owned()));
}

#[test]
fn a_bomb_is_no_archive() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    gzip.write_all(&zeros).unwrap();
    // A file of several streams is one file.
    let bomb = gzip.finish().unwrap().repeat(80);
    assert!(bomb.len() * 250 < (80 << 20), "zeros are compressed well enough: {}", bomb.len());
    let (_, done) = unpacked(Format::Compressed(Compression::Gzip), &bomb, ample());
    let outcome =
        done.map_err(|error| error.starts_with("the content of the archive is more than 250 times"));
    assert_eq!(outcome, Err(true));
}

//
#[test]
fn single_files_are_decompressed() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"hello").unwrap();
    let mut bzip = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip.write_all(b"hello").unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(&b"hello"[..], ruzstd::encoding::CompressionLevel::Fastest);
    for (compression, packed) in [
        (Compression::Gzip, gzip.finish().unwrap()),
        (Compression::Bzip2, bzip.finish().unwrap()),
        (Compression::Zstd, [zstd.clone(), zstd].concat()),
    ] {
        let (dir, done) = unpacked(Format::Compressed(compression), &packed, ample());
        assert_eq!(done, Ok(()), "{compression:?}");
        let text = fs::read_to_string(dir.path().join("out/inner")).unwrap();
        let expected = if compression == Compression::Zstd { "hellohello" } else { "hello" };
        assert_eq!(text, expected, "{compression:?}");
    }
    assert!(unpacked(Format::Compressed(Compression::Xz), b"hello", ample()).1.is_err());
    assert!(unpacked(Format::Zip, b"hello", ample()).1.is_err());
}

//
#[test]
fn zip_archives_are_unpacked_within_their_directory() {
    let zip = |name: &str| {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .unix_permissions(0o755);
        writer.start_file(name, options).unwrap();
        writer.write_all(b"hello").unwrap();
        writer.finish().unwrap().into_inner()
    };
    let (dir, done) = unpacked(Format::Zip, &zip("bin/tool"), ample());
    assert_eq!(done, Ok(()));
    let tool = dir.path().join("out/bin/tool");
    assert_eq!(fs::read_to_string(&tool).unwrap(), "hello");
    assert_eq!(fs::metadata(&tool).unwrap().permissions().mode() & 0o777, 0o755);
    let (dir, done) = unpacked(Format::Zip, &zip("../escaped"), ample());
    assert_eq!(done, Err("\"../escaped\" leads out of the archive".to_owned()));
    assert!(!dir.path().join("escaped").exists());
}

#[test]
fn a_tar_archive_in_each_compression_is_one() {
    let mut builder = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o600);
    builder.append_data(&mut header, "a", &b"x"[..]).unwrap();
    let tar = builder.into_inner().unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(&tar[..], ruzstd::encoding::CompressionLevel::Fastest);
    for (compression, packed) in [(None, tar), (Some(Compression::Zstd), zstd)] {
        let (dir, done) = unpacked(Format::Tar(compression), &packed, ample());
        assert_eq!(done, Ok(()), "{compression:?}");
        assert_eq!(fs::read_to_string(dir.path().join("out/a")).unwrap(), "x");
    }
}
