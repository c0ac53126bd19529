//! Rules of the machine's firewall that plugins leave to us: the one that lets in what is meant for the bridge, and
//! those that a plugin cannot remove any more.

use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use sha2::{Digest as _, Sha512};
use tokio::process::Command;
use tokio::time::timeout;

use super::conflist::{ADMIN_CHAIN, BRIDGE_LIST};
use super::settings::Bridge;

/// How long a change of the rules may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Where the programs are.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The number of hexadecimal digits in the name of a plugin's chain.
const CHAIN_DIGITS: usize = 24;

/// The program that changes the rules of a family of addresses.
fn program(is_ipv4: bool) -> &'static str {
    if is_ipv4 { "iptables" } else { "ip6tables" }
}

/// Checks that the programs for the addresses on the bridge are there.
///
/// # Errors
/// Which one is not.
pub(crate) fn find(bridge: &Bridge) -> Result<(), String> {
    for subnet in [Some(bridge.subnet), bridge.subnet_ipv6].into_iter().flatten() {
        let program = program(subnet.is_ipv4());
        if !PATH.split(':').any(|dir| Path::new(dir).join(program).exists()) {
            return Err(missing(program));
        }
    }
    Ok(())
}

fn missing(program: &str) -> String {
    format!("{program} was not found in {PATH}; the package iptables has it")
}

/// Makes sure that the firewall lets in what is meant for addresses on the bridge.
///
/// # Errors
/// What could not be done.
pub(crate) async fn accept(bridge: &Bridge) -> Result<(), String> {
    for subnet in [Some(bridge.subnet), bridge.subnet_ipv6].into_iter().flatten() {
        let program = program(subnet.is_ipv4());
        let subnet = subnet.to_string();
        let rule: [&str; 6] = ["-o", &bridge.name, "-d", &subnet, "-j", "ACCEPT"];
        // Fails if the chain exists.
        let _ = run(program, &["-N", ADMIN_CHAIN]).await;
        if run(program, &[&["-C", ADMIN_CHAIN][..], &rule].concat()).await.is_err() {
            run(program, &[&["-A", ADMIN_CHAIN][..], &rule].concat()).await?;
        }
    }
    Ok(())
}

/// Removes what masks the address of an allocation whose namespace is lost. The plugin `bridge` removes it only together
/// with the interface.
pub(crate) async fn stop_masking(alloc: &str, address: IpAddr) {
    let (program, address) = (program(address.is_ipv4()), address.to_string());
    let chain = masking_chain(alloc);
    let comment = format!("name: \"{BRIDGE_LIST}\" id: \"{alloc}\"");
    let rule: [&str; 12] = [
        "-t",
        "nat",
        "-D",
        "POSTROUTING",
        "-s",
        &address,
        "-m",
        "comment",
        "--comment",
        &comment,
        "-j",
        &chain,
    ];
    for change in [&rule[..], &["-t", "nat", "-F", &chain], &["-t", "nat", "-X", &chain]] {
        // There is nothing to remove if the machine has started again since.
        if let Err(error) = run(program, change).await {
            tracing::debug!(alloc.id = alloc, error, "a firewall rule of an allocation was not removed");
        }
    }
}

/// The chain that the plugins make for an allocation.
fn masking_chain(alloc: &str) -> String {
    let digest = Sha512::digest(format!("{BRIDGE_LIST}{alloc}"));
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("CNI-{}", &digits[..CHAIN_DIGITS])
}

/// Changes the rules; waits while another process changes them.
async fn run(program: &str, change: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.arg("-w").args(change).env_clear().env("PATH", PATH).current_dir("/");
    command.stdin(Stdio::null()).kill_on_drop(true);
    let failed = |why: String| format!("{program} {}: {why}", change.join(" "));
    match timeout(TIMEOUT, command.output()).await {
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => Err(missing(program)),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!("it did not finish within {} seconds", TIMEOUT.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_the_one_that_plugins_make() {
        assert_eq!(masking_chain("c1"), "CNI-9a53eba6322c9a2a2fc08319");
    }
}
