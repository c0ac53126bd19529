//! NVIDIA GPUs, by the program `nvidia-smi` that comes with their driver.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use model::Text;
use model::node::{Attribute, NodeDevice, NodeDeviceGroup};
use telemetry::clock;
use tokio::process::Command;
use tokio::time::timeout;
use wire::stats::{DEVICES_MAX, DeviceGroupStats, DeviceInstanceStats, DeviceStat, DeviceValue};

use super::{DeviceError, DevicePlugin, Reservation};

/// The vendor and the type of the devices.
const VENDOR: &str = "nvidia";
const KIND: &str = "gpu";
/// The variable that names the GPUs of a task. The container runtime of NVIDIA reads it.
const VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";
/// How long `nvidia-smi` may take. It loads the kernel's driver if nothing else keeps it loaded, which takes seconds; with a
/// broken GPU it may never end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is asked about each GPU at fingerprinting, in the order in which [`gpu`] reads the answer.
const FACTS: &str = "uuid,name,pci.bus_id,memory.total,power.limit,clocks.max.graphics,clocks.max.memory,\
                     pcie.link.gen.max,pcie.link.width.max,display_mode,persistence_mode,driver_version,mig.mode.current";
/// What is asked about each GPU for statistics.
const STATS: &str = "uuid,name,memory.used,memory.total,power.draw,power.limit,utilization.gpu,utilization.memory,\
                     temperature.gpu";

/// Bandwidth of one PCI Express lane by generation, from the first on, in MB/s.
const LANE_MB_PER_SEC: [i64; 6] = [250, 500, 985, 1_969, 3_938, 7_563];

/// The plugin.
#[derive(Debug)]
pub(crate) struct Nvidia {
    program: PathBuf,
    ignored: Vec<String>,
}

impl Nvidia {
    /// Creates the plugin with the path of `nvidia-smi`, or its name if it is in the search path. GPUs whose ids begin with
    /// one of `ignored` are left out.
    pub(crate) fn new(program: PathBuf, ignored: Vec<String>) -> Self {
        Self { program, ignored }
    }

    /// Asks `nvidia-smi` about all GPUs. Returns a line for each, or `None` if there is no such program.
    async fn query(&self, fields: &str) -> Result<Option<String>, DeviceError> {
        let failed = |reason: String| DeviceError(format!("{}: {reason}", self.program.display()));
        let mut command = Command::new(&self.program);
        command.arg(format!("--query-gpu={fields}")).arg("--format=csv,noheader,nounits");
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
        match timeout(TIMEOUT, output).await {
            Ok(Ok(output)) if output.status.success() => {
                Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
            }
            // It prints its errors to standard output.
            Ok(Ok(output)) => {
                let text = [output.stdout, output.stderr].concat();
                let text = String::from_utf8_lossy(&text);
                let reason = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
                Err(failed(format!("{} ({reason})", output.status)))
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!("it did not end within {} seconds", TIMEOUT.as_secs()))),
        }
    }
}

#[async_trait]
impl DevicePlugin for Nvidia {
    fn name(&self) -> &'static str {
        VENDOR
    }

    async fn fingerprint(&self) -> Result<Vec<NodeDeviceGroup>, DeviceError> {
        Ok(groups(&self.query(FACTS).await?.unwrap_or_default(), &self.ignored))
    }

    fn reserve(&self, _: &NodeDeviceGroup, ids: &[Text]) -> Reservation {
        let visible = ids.iter().map(|id| &**id).collect::<Vec<_>>().join(",");
        let env = BTreeMap::from([(VISIBLE_DEVICES.to_owned(), visible)]);
        Reservation { env, ..Reservation::default() }
    }

    async fn stats(&self) -> Result<Vec<DeviceGroupStats>, DeviceError> {
        Ok(stats(&self.query(STATS).await?.unwrap_or_default()))
    }
}

/// The fields of a line; those that `nvidia-smi` does not know are `None`.
fn fields(line: &str) -> Vec<Option<&str>> {
    // Such as `[N/A]`, `[Not Supported]` and `[GPU is lost]`.
    let is_known =
        |field: &&str| !field.is_empty() && !field.starts_with('[') && !matches!(*field, "N/A" | "ERR!");
    line.split(',').map(str::trim).map(|field| Some(field).filter(is_known)).collect()
}

/// The groups of GPUs in the answer about their facts: one for each model.
fn groups(answer: &str, ignored: &[String]) -> Vec<NodeDeviceGroup> {
    let mut groups: Vec<NodeDeviceGroup> = Vec::new();
    for line in answer.lines().take(DEVICES_MAX) {
        let Some((name, instance, attributes)) = gpu(&fields(line)) else { continue };
        if ignored.iter().any(|ignored| instance.id.starts_with(ignored.as_str())) {
            continue;
        }
        match groups.iter_mut().find(|group| *group.name == *name) {
            Some(group) => group.instances.push(instance),
            None => groups.push(NodeDeviceGroup {
                vendor: VENDOR.into(),
                kind: KIND.into(),
                name: name.into(),
                instances: vec![instance],
                attributes,
            }),
        }
    }
    groups
}

/// The model, the instance and the attributes of one GPU; `None` if it has no id or no name.
fn gpu<'l>(fields: &[Option<&'l str>]) -> Option<(&'l str, NodeDevice, BTreeMap<Text, Attribute>)> {
    let field = |at: usize| fields.get(at).copied().flatten();
    let (id, name) = (field(0)?, field(1)?);
    let number = |at: usize| field(at)?.parse::<f64>().ok().map(|number| number as i64);
    let int = |value: i64, unit: &str| Attribute {
        int: Some(value),
        unit: Some(unit.to_owned()),
        ..Attribute::default()
    };
    let text = |value: &str| Attribute { string: Some(value.to_owned()), ..Attribute::default() };
    let bandwidth = || {
        let generation = usize::try_from(number(7)?).ok()?.checked_sub(1)?;
        Some(LANE_MB_PER_SEC.get(generation)? * number(8)?)
    };
    let found = [
        ("memory", number(3).map(|mib| int(mib, "MiB"))),
        ("power", number(4).map(|watts| int(watts, "W"))),
        ("cores_clock", number(5).map(|mhz| int(mhz, "MHz"))),
        ("memory_clock", number(6).map(|mhz| int(mhz, "MHz"))),
        ("pci_bandwidth", bandwidth().map(|bandwidth| int(bandwidth, "MB/s"))),
        ("display_state", field(9).map(text)),
        ("persistence_mode", field(10).map(text)),
        ("driver_version", field(11).map(text)),
    ];
    let attributes = found.into_iter().filter_map(|(key, value)| Some((key.into(), value?))).collect();
    let problem = if field(3).is_none() {
        "its memory cannot be read"
    } else if field(12) == Some("Enabled") {
        "it is divided into instances (MIG), which cannot be given to tasks"
    } else {
        ""
    };
    let instance = NodeDevice {
        id: id.into(),
        healthy: problem.is_empty(),
        health_description: problem.into(),
        pci_bus_id: field(2).map(Text::from),
    };
    Some((name, instance, attributes))
}

/// The statistics in the answer about them, by model.
fn stats(answer: &str) -> Vec<DeviceGroupStats> {
    let at = clock::now();
    let mut groups: Vec<DeviceGroupStats> = Vec::new();
    for line in answer.lines().take(DEVICES_MAX) {
        let fields = fields(line);
        let field = |at: usize| fields.get(at).copied().flatten();
        let number = |at: usize| field(at)?.parse::<f64>().ok();
        let (Some(id), Some(name)) = (field(0), field(1)) else { continue };
        let value = |value: f64, of: Option<f64>, unit: &str, about: &str| DeviceValue {
            value,
            of,
            unit: unit.into(),
            about: about.into(),
        };
        let ratio = |used: usize, total: usize, unit: &str, about: &str| {
            Some(value(number(used)?, Some(number(total)?), unit, about))
        };
        let plain = |at: usize, unit: &str, about: &str| Some(value(number(at)?, None, unit, about));
        let memory = ratio(2, 3, "MiB", "UsedMemory / TotalMemory");
        let found = [
            ("Memory state", memory.clone()),
            ("Power usage", ratio(4, 5, "W", "UsedPower / MaxPower")),
            ("GPU utilization", plain(6, "%", "Percent of time in which the GPU was busy")),
            ("Memory utilization", plain(7, "%", "Percent of time in which memory was read or written")),
            ("Temperature", plain(8, "C", "Temperature of the Unit")),
        ];
        let stats = found.into_iter().filter_map(|(name, value)| {
            let value = value?;
            Some(DeviceStat { name: name.into(), value })
        });
        let instance = DeviceInstanceStats { id: id.into(), at, summary: memory, stats: stats.collect() };
        match groups.iter_mut().find(|group| *group.name == *name) {
            Some(group) => group.instances.push(instance),
            None => groups.push(DeviceGroupStats {
                vendor: VENDOR.into(),
                kind: KIND.into(),
                name: name.into(),
                instances: vec![instance],
            }),
        }
    }
    groups
}
