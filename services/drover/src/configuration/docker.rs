//! The block `plugin "docker"`: its keys, and the settings of the driver that they change (`docs/rules/agent.md` ).

use std::time::Duration;

use model::features::Feature;

use super::block::{Block, FromScalar};
use super::schema::{COUNT, Key, Support, Type, WHOLE};
use super::values::Scalar;

const fn used(name: &'static str, value_type: Type) -> Key {
    Key { name, value_type, support: Support::Used }
}

const fn unbuilt(name: &'static str, value_type: Type) -> Key {
    Key { name, value_type, support: Support::NotBuilt(Feature::SomeSettings) }
}

const fn idle(name: &'static str, value_type: Type, why: &'static str) -> Key {
    Key { name, value_type, support: Support::NoEffect(why) }
}

const fn within(name: &'static str, value_type: Type) -> Key {
    Key { name, value_type, support: Support::AsBlock }
}

const NO_WINDOWS: &str = "there are no Windows nodes";

/// The keys of the block.
pub(super) const PLUGIN: &[Key] = &[unbuilt("args", Type::Texts), used("config", Type::Block(CONFIG))];

const CONFIG: &[Key] = &[
    used("allow_caps", Type::Texts),
    used("allow_privileged", Type::Bool),
    used("allow_runtimes", Type::Texts),
    used("allowed_modes", Type::Block(ALLOWED_MODES)),
    used("auth", Type::Block(AUTH)),
    used("container_exists_attempts", COUNT),
    used("disable_log_collection", Type::Bool),
    used("endpoint", Type::Text),
    used("extra_labels", Type::Texts),
    used("gc", Type::Block(GC)),
    used("image_pull_timeout", Type::Duration),
    used("infra_image", Type::Text),
    used("infra_image_pull_timeout", Type::Duration),
    used("logging", Type::Block(LOGGING)),
    used("nvidia_runtime", Type::Text),
    used("oom_score_adj", WHOLE),
    used("pids_limit", COUNT),
    used("pull_activity_timeout", Type::Duration),
    used("pulls_max", COUNT),
    unbuilt("tls", Type::Block(TLS)),
    used("volumes", Type::Block(VOLUMES)),
    idle("windows_allow_insecure_container_admin", Type::Bool, NO_WINDOWS),
];

const ALLOWED_MODES: &[Key] = &[
    used("ipc", Type::Texts),
    used("pid", Type::Texts),
    used("userns", Type::Texts),
    used("uts", Type::Texts),
];

const AUTH: &[Key] = &[used("config", Type::Text), used("helper", Type::Text)];

const GC: &[Key] = &[
    used("container", Type::Bool),
    used("dangling_containers", Type::Block(DANGLING_CONTAINERS)),
    used("image", Type::Bool),
    used("image_delay", Type::Duration),
];

const DANGLING_CONTAINERS: &[Key] = &[
    used("creation_grace", Type::Duration),
    used("dry_run", Type::Bool),
    used("enabled", Type::Bool),
    used("period", Type::Duration),
];

const LOGGING: &[Key] = &[used("config", Type::Map), used("type", Type::Text)];

const TLS: &[Key] = &[within("ca", Type::Text), within("cert", Type::Text), within("key", Type::Text)];

const VOLUMES: &[Key] = &[used("enabled", Type::Bool), used("selinuxlabel", Type::Text)];

/// The block `config` of `plugin "docker"`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Docker(Block);

impl Docker {
    /// The settings in the block.
    pub(super) fn of(config: &Block) -> Self {
        Self(config.clone())
    }

    /// Changes the arguments of an agent to what the files set.
    pub(crate) fn apply(&self, args: &mut agent::Args) {
        let Self(config) = self;
        let settings = &mut args.docker;
        set(config, "endpoint", &mut args.docker_endpoint);
        set(config, "allow_privileged", &mut args.docker_allow_privileged);
        set(config, "allow_caps", &mut settings.allow_caps);
        set(config, "allow_runtimes", &mut settings.allow_runtimes);
        set(config, "container_exists_attempts", &mut settings.container_exists_attempts);
        set(config, "disable_log_collection", &mut settings.disable_log_collection);
        set(config, "extra_labels", &mut settings.extra_labels);
        set(config, "image_pull_timeout", &mut settings.image_pull_timeout);
        set(config, "infra_image", &mut settings.infra_image);
        set(config, "infra_image_pull_timeout", &mut settings.infra_image_pull_timeout);
        set(config, "nvidia_runtime", &mut settings.nvidia_runtime);
        set(config, "oom_score_adj", &mut settings.oom_score_adj);
        set(config, "pids_limit", &mut settings.pids_limit);
        set(config, "pull_activity_timeout", &mut settings.pull_activity_timeout);
        set(config, "pulls_max", &mut args.docker_pulls_max);
        let modes = config.block("allowed_modes");
        set(modes, "ipc", &mut settings.allowed_modes.ipc);
        set(modes, "pid", &mut settings.allowed_modes.pid);
        set(modes, "userns", &mut settings.allowed_modes.userns);
        set(modes, "uts", &mut settings.allowed_modes.uts);
        let auth = config.block("auth");
        set(auth, "config", &mut args.docker_auth_config);
        set(auth, "helper", &mut settings.auth_helper);
        let gc = config.block("gc");
        set(gc, "container", &mut settings.gc_container);
        set(gc, "image", &mut settings.gc_image);
        set(gc, "image_delay", &mut settings.gc_image_delay);
        let dangling = gc.block("dangling_containers");
        set(dangling, "creation_grace", &mut settings.dangling.creation_grace);
        set(dangling, "dry_run", &mut settings.dangling.dry_run);
        set(dangling, "enabled", &mut settings.dangling.enabled);
        set(dangling, "period", &mut settings.dangling.period);
        let volumes = config.block("volumes");
        set(volumes, "enabled", &mut args.docker_volumes);
        set(volumes, "selinuxlabel", &mut settings.volumes_selinux_label);
        let logging = config.block("logging");
        let options = logging.map("config");
        if logging.get::<String>("type").is_some() || !options.is_empty() {
            // Options of one log driver mean nothing to another.
            settings.logging_config = options;
        }
        set(logging, "type", &mut settings.logging_type);
    }
}

/// Sets a value to that of a key, if the block has it.
fn set<T: FromScalar>(block: &Block, key: &str, value: &mut T) {
    if let Some(found) = block.get(key) {
        *value = found;
    }
}

impl FromScalar for Duration {
    fn from_scalar(scalar: &Scalar) -> Option<Self> {
        let Scalar::Duration(nanos) = scalar else { return None };
        Some(Self::from_nanos((*nanos).try_into().ok()?))
    }
}

impl FromScalar for usize {
    fn from_scalar(scalar: &Scalar) -> Option<Self> {
        let Scalar::Whole(number) = scalar else { return None };
        (*number).try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::of_text;

    /// What the arguments of an agent become with these keys in the block.
    fn applied(config: &str) -> agent::Args {
        let loaded = of_text(format!("plugin \"docker\" {{\n config {{\n{config}\n }}\n}}"));
        assert!(loaded.report.faults.is_empty() && loaded.report.not_built.is_empty(), "{:?}", loaded.report);
        let mut args = agent::Args::default();
        loaded.settings.docker.apply(&mut args);
        args
    }

    #[test]
    fn every_key_that_is_a_setting_changes_the_agent() {
        let plain = format!("{:?}", applied(""));
        for key in [
            "allow_caps = [\"chown\"]",
            "allow_privileged = true",
            "allow_runtimes = [\"kata\"]",
            "allowed_modes { ipc = [\"host\"] }",
            "allowed_modes { pid = [\"host\"] }",
            "allowed_modes { userns = [\"host\"] }",
            "allowed_modes { uts = [\"host\"] }",
            "auth { config = \"/root/.docker/config.json\" }",
            "auth { helper = \"ecr-login\" }",
            "container_exists_attempts = 2",
            "disable_log_collection = true",
            "endpoint = \"unix:///run/podman/podman.sock\"",
            "extra_labels = [\"job_name\"]",
            "gc { container = false }",
            "gc { image = false }",
            "gc { image_delay = \"1h\" }",
            "gc { dangling_containers { creation_grace = \"1h\" } }",
            "gc { dangling_containers { dry_run = true } }",
            "gc { dangling_containers { enabled = false } }",
            "gc { dangling_containers { period = \"1h\" } }",
            "image_pull_timeout = \"1h\"",
            "infra_image = \"pause:3.10\"",
            "infra_image_pull_timeout = \"1h\"",
            "logging { config { mode = \"non-blocking\" } }",
            "logging { type = \"journald\" }",
            "nvidia_runtime = \"gpus\"",
            "oom_score_adj = 100",
            "pids_limit = 100",
            "pull_activity_timeout = \"1h\"",
            "pulls_max = 1",
            "volumes { enabled = true }",
            "volumes { selinuxlabel = \"z\" }",
        ] {
            assert_ne!(format!("{:?}", applied(key)), plain, "{key}");
        }
        assert!(applied("logging { type = \"journald\" }").docker.logging_config.is_empty());
    }

    #[test]
    fn the_other_keys_are_named() {
        let loaded = of_text(
            "plugin \"docker\" { config {\n tls { ca = \"/ca\" }\n\
             windows_allow_insecure_container_admin = true\n unknown = 1 } }",
        );
        let keys = |findings: &[super::super::Finding]| {
            findings.iter().map(|found| found.key.clone()).collect::<Vec<_>>()
        };
        assert_eq!(keys(&loaded.report.not_built), ["plugin \"docker\".config.tls"]);
        assert_eq!(keys(&loaded.report.no_effect).len(), 1);
        assert_eq!(loaded.report.faults.len(), 1);
    }
}
