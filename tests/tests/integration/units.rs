//! The systemd units are valid, servers are hardened, and units and their configuration name only existing settings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regex::Regex;
use tests::harness::{AGENT, SERVICES};

use crate::BINARY;

const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/systemd");
/// The program's path in the units.
const INSTALLED: &str = "/usr/bin/drover";
/// The highest allowed exposure of a server according to `systemd-analyze security`, in tenths: 1.5 of 10.
const EXPOSURE_MAX: &str = "15";

fn unit(service: &str) -> String {
    read(&Path::new(UNITS).join(format!("drover-{service}.service")))
}

fn configuration(service: &str) -> String {
    read(&Path::new(UNITS).join(format!("config/{service}.env")))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn analyze(arguments: &[&str]) -> Output {
    let output = Command::new("systemd-analyze").args(arguments).output();
    output.expect("systemd-analyze can be started (Debian: systemd)")
}

fn text(output: &Output) -> String {
    let [out, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{error}")
}

#[test]
fn systemd_understands_every_unit() {
    let dir = tempfile::tempdir().expect("a temporary directory can be created");
    let mut units: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(UNITS).expect("the directory can be read").flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file())
            && entry.path().extension().is_some_and(|end| end != "sysusers")
        {
            // The program need not be installed on this machine.
            let text = read(&entry.path()).replace(INSTALLED, BINARY);
            let copy = dir.path().join(entry.file_name());
            std::fs::write(&copy, text).expect("the copy can be written");
            units.push(copy);
        }
    }
    assert_eq!(
        units.len(),
        SERVICES.len() + 3,
        "units of the services, an agent, a target and a slice: {units:?}"
    );
    let paths = units.iter().map(|unit| unit.to_str().expect("the path is UTF-8"));
    let arguments: Vec<&str> = ["verify", "--man=no"].into_iter().chain(paths).collect();
    let output = analyze(&arguments);
    let about_ours =
        text(&output).lines().filter(|line| line.contains("drover")).collect::<Vec<_>>().join("\n");
    assert!(output.status.success() && about_ours.is_empty(), "{}", text(&output));
}

#[test]
fn servers_are_hardened_and_all_alike() {
    let normalized = |service: &str| unit(service).replace(service, "SERVICE");
    let is_common = |line: &&str| !line.starts_with("Description=") && !line.starts_with("LimitNOFILE=");
    let first = normalized(SERVICES[0]);
    for service in SERVICES {
        let file = format!("{UNITS}/drover-{service}.service");
        let output =
            analyze(&["security", "--offline=true", "--no-pager", "--threshold", EXPOSURE_MAX, &file]);
        assert!(output.status.success(), "{service}: {}", text(&output));
        let own = normalized(service);
        assert_eq!(
            own.lines().filter(is_common).collect::<Vec<_>>(),
            first.lines().filter(is_common).collect::<Vec<_>>()
        );
    }
}

#[test]
fn tasks_survive_a_restart_of_the_agent() {
    let unit = unit(AGENT);
    for line in ["Type=notify", "KillMode=process", "Delegate=yes", "WatchdogSec=30"] {
        assert!(unit.lines().any(|one| one == line), "{line}");
    }
}

#[test]
fn settings_that_units_and_configuration_name_exist() {
    let named =
        Regex::new(r"(?m)^(?:Environment=|#)?(DROVER_[A-Z_]+)=").expect("the regular expression is valid");
    let common = read(&Path::new(UNITS).join("config/drover.env"));
    for service in SERVICES.into_iter().chain([AGENT]) {
        let output =
            Command::new(BINARY).args([service, "--help"]).output().expect("the binary can be started");
        let help = text(&output);
        let texts = [unit(service), configuration(service), common.clone()];
        let found: BTreeSet<&str> = texts
            .iter()
            .flat_map(|text| named.captures_iter(text))
            .map(|found| found.extract::<1>().1[0])
            .collect();
        assert!(found.contains("DROVER_NATS_URL") && found.contains("DROVER_HEALTH_ADDR"), "{found:?}");
        for name in found {
            assert!(
                help.contains(&format!("[env: {name}")),
                "drover {service} has no setting {name}:\n{help}"
            );
        }
    }
}

#[test]
fn every_process_of_a_machine_has_a_health_address_of_its_own() {
    let address = |service: &str| {
        let text = configuration(service);
        let line = text.lines().find_map(|line| line.strip_prefix("DROVER_HEALTH_ADDR="));
        line.expect("the configuration has a health address").to_owned()
    };
    let addresses: BTreeSet<String> = SERVICES.into_iter().chain([AGENT]).map(address).collect();
    assert_eq!(addresses.len(), SERVICES.len() + 1);
}
