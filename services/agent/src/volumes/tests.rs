//! Tests of the host volumes of a node.

use std::fs;

use super::plugin::MKDIR;
use super::settings::HostVolumeArgs;
use super::*;

const NODE: NodeId = NodeId::from_bytes([3; 16]);
const ONE: HostVolumeId = HostVolumeId::from_bytes([1; 16]);
const TWO: HostVolumeId = HostVolumeId::from_bytes([2; 16]);

/// The volumes of a node whose configuration has the volume `certs`.
fn volumes(dir: &Path) -> HostVolumes {
    let store = Store::open(&dir.join("state")).unwrap();
    let settings = VolumeSettings {
        statics: vec![HostVolumeArgs::new("certs", "/etc/ssl", true).unwrap()],
        volumes_dir: dir.join("volumes"),
        plugin_dir: dir.join("plugins"),
        gc_on_node_gc: false,
    };
    HostVolumes::load(&store, settings, NODE, "default".into())
}

fn wanted(id: HostVolumeId, name: &str, plugin: &str) -> Wanted {
    Wanted {
        id,
        namespace: "default".into(),
        name: name.into(),
        plugin: plugin.into(),
        bytes_min: 0,
        bytes_max: 0,
        parameters: BTreeMap::new(),
    }
}

fn names(volumes: &HostVolumes) -> Vec<String> {
    volumes.found().volumes.keys().map(ToString::to_string).collect()
}

#[tokio::test]
async fn dynamic_volumes_survive_a_restart_and_are_created_again_if_they_are_lost() {
    // http-api §22
    let dir = tempfile::tempdir().unwrap();
    let path = volumes(dir.path()).create(wanted(ONE, "data", MKDIR)).await.unwrap().path;
    let restarted = volumes(dir.path());
    assert_eq!(names(&restarted), ["certs", "data"]);
    let shown = restarted.named("data").unwrap();
    assert_eq!((&*shown.path, &*shown.id), (path.to_str().unwrap(), ONE.to_string().as_str()));
    assert!(!shown.read_only && restarted.named("certs").unwrap().read_only);
    fs::remove_dir(&path).unwrap();
    assert_eq!(names(&restarted), ["certs"], "a volume that is not there is not shown");
    restarted.restore().await;
    assert_eq!(names(&restarted), ["certs", "data"]);
    restarted.delete(ONE).await.unwrap();
    restarted.delete(ONE).await.unwrap();
    assert!(!path.exists());
    assert_eq!(names(&volumes(dir.path())), ["certs"]);
}

#[tokio::test]
async fn a_name_belongs_to_one_volume_of_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let volumes = volumes(dir.path());
    volumes.create(wanted(ONE, "data", MKDIR)).await.unwrap();
    volumes.create(wanted(ONE, "data", MKDIR)).await.unwrap();
    for (id, name) in [(TWO, "data"), (TWO, "certs")] {
        let error = volumes.create(wanted(id, name, MKDIR)).await.unwrap_err();
        assert_eq!(error.to_string(), format!("the node has another volume with the name \"{name}\""));
    }
    assert!(!dir.path().join("volumes").join(TWO.to_string()).exists());
}

#[tokio::test]
async fn a_registered_directory_is_never_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let volumes = volumes(dir.path());
    let own = dir.path().join("own");
    let error = volumes.register(wanted(ONE, "data", ""), &own).unwrap_err();
    assert!(matches!(error, VolumeError::NoDirectory(_)), "{error}");
    fs::create_dir(&own).unwrap();
    volumes.register(wanted(ONE, "data", ""), &own).unwrap();
    assert_eq!(names(&volumes), ["certs", "data"]);
    volumes.delete(ONE).await.unwrap();
    assert_eq!(names(&volumes), ["certs"]);
    assert!(own.is_dir());
}

#[tokio::test]
async fn the_built_in_plugin_is_an_attribute_of_the_node() {
    //
    let dir = tempfile::tempdir().unwrap();
    let volumes = volumes(dir.path());
    assert!(volumes.found().attributes.is_empty());
    volumes.detect_plugins().await;
    let attributes = volumes.found().attributes;
    assert_eq!(
        attributes.keys().map(|name| name.as_str()).collect::<Vec<_>>(),
        ["plugins.host_volume.mkdir.version"]
    );
}
