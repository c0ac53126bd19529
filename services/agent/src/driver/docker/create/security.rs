//! What a container is allowed to do, and which of it the operator permits. Pure.

use std::collections::BTreeSet;

use model::text::quoted;

use super::super::config::TaskConfig;
use super::super::settings::DEFAULT_CAPS;
use super::{Facts, Object};
use crate::driver::start::Start;

/// The variable that names reserved GPUs. Their runtime reads it.
const VISIBLE_GPUS: &str = "NVIDIA_VISIBLE_DEVICES";

/// Adds what the container is allowed to do.
pub(super) fn security(
    facts: Facts<'_>,
    config: &TaskConfig,
    start: &Start,
    host: &mut Object,
) -> Result<(), String> {
    let settings = facts.settings;
    let security = &config.security;
    if security.privileged && !settings.allow_privileged {
        return Err("Docker privileged mode is disabled on this Nomad agent".to_owned());
    }
    host.put("Privileged", security.privileged);
    if !security.privileged {
        host.put("CapDrop", ["ALL"]);
        let caps = capabilities(&settings.allow_caps, &security.cap_add, &security.cap_drop)?;
        host.put("CapAdd", caps);
    }
    host.put("Runtime", runtime(facts, config, start)?);
    let allowed = &settings.allowed_modes;
    mode("ipc_mode", &security.ipc_mode, &["private", "none", "shareable"], &allowed.ipc)?;
    mode("pid_mode", &security.pid_mode, &["private"], &allowed.pid)?;
    mode("userns_mode", &security.userns_mode, &["private"], &allowed.userns)?;
    mode("uts_mode", &security.uts_mode, &["private"], &allowed.uts)?;
    // Docker does not know the word for the other three, which have no other default.
    let own = |mode: &str| if mode == "private" { String::new() } else { mode.to_owned() };
    host.put("IpcMode", &security.ipc_mode);
    host.put("PidMode", own(&security.pid_mode));
    host.put("UsernsMode", own(&security.userns_mode));
    host.put("UTSMode", own(&security.uts_mode));
    if !matches!(&*security.cgroupns, "" | "private" | "host") {
        return Err(format!("cgroupns: expected private or host, not {}", quoted(&security.cgroupns)));
    }
    host.put("CgroupnsMode", &security.cgroupns);
    for option in &security.security_opt {
        check_security_option(option)?;
    }
    host.put("SecurityOpt", &security.security_opt);
    host.put("ReadonlyRootfs", security.readonly_rootfs);
    host.put("Sysctls", &security.sysctl);
    host.put("GroupAdd", &config.process.group_add);
    host.put("Init", config.process.init);
    Ok(())
}

/// The runtime of the container: that of GPUs, if some were reserved for the task, or the one that it names.
fn runtime<'a>(facts: Facts<'a>, config: &'a TaskConfig, start: &Start) -> Result<&'a str, String> {
    let named = config.process.runtime.as_str();
    if !named.is_empty() && !facts.settings.allow_runtimes.iter().any(|allowed| allowed == named) {
        return Err(format!("requested runtime {} is not allowed", quoted(named)));
    }
    if !start.device_env.contains_key(VISIBLE_GPUS) {
        return Ok(named);
    }
    let gpus = facts.settings.nvidia_runtime.as_str();
    if !facts.runtimes.contains_key(gpus) {
        return Err(format!("requested docker runtime {} was not found", quoted(gpus)));
    }
    if !named.is_empty() && named != gpus {
        let (named, gpus) = (quoted(named), quoted(gpus));
        return Err(format!(
            "the task's runtime {named} is not that of the GPUs that it has reserved, {gpus}"
        ));
    }
    Ok(gpus)
}

/// A profile is given by its content: the agent reads no files of the node for a job.
fn check_security_option(option: &str) -> Result<(), String> {
    let profile = option.strip_prefix("seccomp=").or_else(|| option.strip_prefix("seccomp:"));
    match profile {
        Some(profile) if !matches!(profile, "unconfined" | "builtin") && !profile.starts_with('{') => {
            Err(format!(
                "security_opt: the profile {} is a file; give its content, such as \
             seccomp=${{file(\"profile.json\")}}",
                quoted(profile)
            ))
        }
        Some(_) | None => Ok(()),
    }
}

fn mode(key: &str, mode: &str, own: &[&str], allowed: &[String]) -> Result<(), String> {
    if mode.is_empty() || own.contains(&mode) || allowed.iter().any(|allowed| allowed == mode) {
        return Ok(());
    }
    Err(format!("{key} {} is not allowed on this node", quoted(mode)))
}

/// The capabilities of a container.
fn capabilities(allowed: &[String], add: &[String], drop: &[String]) -> Result<Vec<String>, String> {
    let plain = |name: &String| {
        let name = name.to_ascii_lowercase();
        name.strip_prefix("cap_").map(str::to_owned).unwrap_or(name)
    };
    let allowed: BTreeSet<String> = allowed.iter().map(plain).collect();
    let is_allowed = |name: &String| allowed.contains("all") || allowed.contains(name);
    let dropped: BTreeSet<String> = drop.iter().map(plain).collect();
    let added: BTreeSet<String> = add.iter().map(plain).collect();
    let refused: Vec<&String> = added.iter().filter(|name| !is_allowed(name)).collect();
    if !refused.is_empty() {
        let names = refused.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(format!("driver does not allow the following capabilities: {names}"));
    }
    let defaults = DEFAULT_CAPS.map(str::to_owned).into_iter();
    let mut caps: BTreeSet<String> = defaults
        .filter(|name| is_allowed(name) && !dropped.contains("all") && !dropped.contains(name))
        .collect();
    caps.extend(added);
    Ok(caps.into_iter().map(|name| name.to_ascii_uppercase()).collect())
}
