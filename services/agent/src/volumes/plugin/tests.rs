//! Tests of the plugins that create and delete host volumes.

use std::fs;

use super::*;

fn place(dir: &Path) -> Place {
    Place {
        volumes_dir: dir.join("volumes"),
        plugin_dir: dir.join("plugins"),
        node: "n".to_owned(),
        node_pool: "default".into(),
    }
}

fn wanted(plugin: &str, parameters: &[(&str, &str)]) -> Wanted {
    Wanted {
        id: HostVolumeId::from_bytes([7; 16]),
        namespace: "default".into(),
        name: "data".into(),
        plugin: plugin.into(),
        bytes_min: 1,
        bytes_max: 2,
        parameters: parameters.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
    }
}

/// Adds a program to the plugin directory.
fn program(place: &Place, name: &str, script: &str) {
    fs::create_dir_all(&place.plugin_dir).unwrap();
    let path = place.plugin_dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn mkdir_makes_a_directory_named_after_the_id_and_removes_it() {
    // http-api §22: the built-in plugin.
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let wanted = wanted(MKDIR, &[("mode", "0750")]);
    for _ in 0..2 {
        let created = place.create(&wanted).await.unwrap();
        let path = dir.path().join("volumes/07070707-0707-0707-0707-070707070707");
        assert_eq!(created, Created { path: path.clone(), bytes: 0 });
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o750);
        fs::write(path.join("file"), "kept").unwrap();
    }
    let path = dir.path().join("volumes/07070707-0707-0707-0707-070707070707");
    assert!(path.join("file").exists());
    for _ in 0..2 {
        place.delete(&wanted, &path).await.unwrap();
        assert!(!path.exists());
    }
}

#[tokio::test]
async fn mkdir_refuses_parameters_that_it_does_not_know() {
    let dir = tempfile::tempdir().unwrap();
    for (name, value, error) in [
        ("mode", "999", r#"plugin mkdir: parameter mode cannot be "999""#),
        ("uid", "root", r#"plugin mkdir: parameter uid cannot be "root""#),
        ("size", "1", r#"plugin mkdir: unknown parameter "size""#),
    ] {
        let found = place(dir.path()).create(&wanted(MKDIR, &[(name, value)])).await.unwrap_err();
        assert_eq!(found.to_string(), error);
    }
}

#[tokio::test]
async fn names_of_plugins_stay_in_their_directory() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["", ".", "..", "../sh", "/bin/sh", "a/b", "none"] {
        let error = place(dir.path()).create(&wanted(name, &[])).await.unwrap_err();
        assert!(matches!(error, PluginError::Unknown(_)), "{name}: {error}");
    }
}

#[test]
fn a_program_is_told_everything_about_its_volume() {
    let variables: BTreeMap<_, _> = variables(&wanted("x", &[("a", "b")])).into_iter().collect();
    assert_eq!(variables["DHV_VOLUME_ID"], "07070707-0707-0707-0707-070707070707");
    assert_eq!((&*variables["DHV_VOLUME_NAME"], &*variables["DHV_NAMESPACE"]), ("data", "default"));
    assert_eq!((&*variables["DHV_CAPACITY_MIN_BYTES"], &*variables["DHV_CAPACITY_MAX_BYTES"]), ("1", "2"));
    assert_eq!(variables["DHV_PARAMETERS"], r#"{"a":"b"}"#);
}

#[tokio::test]
async fn output_beyond_the_limit_is_discarded() {
    let long = vec![b'x'; usize::try_from(OUTPUT_BYTES_MAX).unwrap() + 5];
    assert_eq!(limited(Some(&long[..])).await.len(), long.len() - 5);
    assert_eq!(limited(None::<&[u8]>).await, b"");
}

#[test]
fn only_programs_are_plugins() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    assert_eq!(place.programs(), [""; 0]);
    program(&place, "b", "true");
    program(&place, "a", "true");
    program(&place, MKDIR, "true");
    fs::write(place.plugin_dir.join("notes"), "").unwrap();
    fs::create_dir(place.plugin_dir.join("directory")).unwrap();
    assert_eq!(place.programs(), ["a", "b"]);
}
