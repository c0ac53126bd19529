//! Sets up the allocation's network, and removes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::DnsConfig;
use async_trait::async_trait;
use model::Text;
use model::job::NetworkResource;
use model::text::quoted;

use super::{AllocHook, AllocRun, AllocSetup, HookError};
use crate::networks::attachment::{Attachment, Mode};
use crate::task::env;
use crate::task::interpolation::{InterpolationError, Interpolator};

/// The maximum length of a host name, in bytes.
const HOSTNAME_BYTES_MAX: usize = 253;

/// The hook.
pub(super) struct Network;

#[async_trait]
impl AllocHook for Network {
    fn name(&self) -> &'static str {
        "network"
    }

    async fn prerun(&self, alloc: &AllocRun, setup: &mut AllocSetup) -> Result<(), HookError> {
        let network = alloc.group()?.networks.first();
        let Some(mode) = Mode::of(network).map_err(HookError::unrecoverable)? else { return Ok(()) };
        let attachment = attachment(alloc, network, mode).map_err(HookError::unrecoverable)?;
        let network = alloc.context.networks.set_up(&attachment).await;
        let failed = |error| HookError::recoverable(format!("failed to configure network: {error}"));
        setup.network = Some(Arc::new(network.map_err(failed)?));
        Ok(())
    }

    async fn postrun(&self, alloc: &AllocRun) -> Result<(), HookError> {
        alloc.context.networks.remove(alloc.spec.id()).await.map_err(HookError::recoverable)
    }
}

/// What an allocation asks of its network, with names in the job replaced by their values.
fn attachment(alloc: &AllocRun, network: Option<&NetworkResource>, mode: Mode) -> Result<Attachment, String> {
    let (node, spec) = (&alloc.context.node, &alloc.spec);
    let known = env::of_alloc(spec, node);
    let mut interpolator = Interpolator::new(node);
    let mut fill = |text: &str| {
        let filled = interpolator.fill(text, &known);
        filled.map_err(|error: InterpolationError| format!("a text in the network block {error}"))
    };
    let asked = network.cloned().unwrap_or_default();
    let mut hostname = None;
    if !asked.hostname.is_empty() {
        let filled = fill(&asked.hostname)?;
        if !is_hostname(&filled) {
            return Err(format!("hostname {} of the network is not a valid DNS name", quoted(&filled)));
        }
        hostname = Some(filled);
    }
    let mut list = |texts: Option<Vec<String>>| -> Result<Option<Vec<String>>, String> {
        texts.map(|texts| texts.iter().map(|text| fill(text)).collect::<Result<Vec<_>, String>>()).transpose()
    };
    let dns = match asked.dns {
        Some(DnsConfig { servers, searches, options }) => {
            let (servers, searches, options) = (list(servers)?, list(searches)?, list(options)?);
            Some(DnsConfig { servers, searches, options })
        }
        None => None,
    };
    let args = asked.cni.and_then(|cni| cni.args).unwrap_or_default().into_iter();
    let args = args.map(|(name, value)| fill(&value).map(|value| (name, value)));
    let args = args.collect::<Result<BTreeMap<_, _>, _>>()?;
    let job = &spec.job.spec;
    Ok(Attachment {
        alloc: spec.id(),
        job: Text::clone(&job.id),
        group: Text::clone(&spec.common.task_group),
        namespace: Text::clone(&job.namespace),
        region: Text::clone(&node.region),
        mode,
        hostname,
        dns,
        args,
        ports: spec.resources().ports,
    })
}

/// Whether a name can stand in a hosts file. Admission checks names that need no interpolation (N-19.13).
fn is_hostname(name: &str) -> bool {
    (1..=HOSTNAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use api_types::CniConfig;
    use model::job::{JobType, TaskGroup};
    use tokio::sync::watch;

    use super::*;
    use crate::testing::{context, task, with_group};

    /// What the hook makes of an allocation whose group has this network.
    async fn prepared(network: NetworkResource) -> (Result<AllocSetup, String>, Result<Attachment, String>) {
        let dir = tempfile::tempdir().unwrap();
        let networks = vec![network];
        let tasks = vec![task("web")];
        let group = TaskGroup { name: "app".into(), tasks, networks, ..TaskGroup::default() };
        let spec = Arc::new(with_group(JobType::Service, group));
        let alloc = AllocRun { context: context(dir.path(), watch::channel(true).1), spec };
        let mut setup = AllocSetup::default();
        let outcome = Network.prerun(&alloc, &mut setup).await;
        Network.postrun(&alloc).await.unwrap();
        let attachment = attachment(&alloc, alloc.group().unwrap().networks.first(), Mode::Bridge);
        (outcome.map(|()| setup).map_err(|error| error.message), attachment)
    }

    #[tokio::test]
    async fn the_network_of_the_node_needs_nothing() {
        let (setup, _) = prepared(NetworkResource::default()).await;
        assert_eq!(setup, Ok(AllocSetup::default()));
    }

    #[tokio::test]
    async fn a_namespace_is_made_where_that_is_permitted() {
        let (setup, _) =
            prepared(NetworkResource { mode: "none".into(), ..NetworkResource::default() }).await;
        match setup {
            Ok(setup) => {
                assert_eq!(setup.network.unwrap().status, None, "there is only a loopback interface")
            }
            Err(error) => {
                let expected = "failed to configure network: cannot make a network namespace: ";
                assert!(error.starts_with(expected), "{error}");
            }
        }
    }

    #[tokio::test]
    async fn names_in_the_network_block_are_replaced() {
        let network = NetworkResource {
            mode: "unheard-of".into(),
            hostname: "${NOMAD_JOB_ID}-${NOMAD_ALLOC_INDEX}".into(),
            dns: Some(DnsConfig {
                searches: Some(vec!["${NOMAD_GROUP_NAME}.lan".into()]),
                ..Default::default()
            }),
            cni: Some(CniConfig {
                args: Some([("ID".to_owned(), "${NOMAD_SHORT_ALLOC_ID}".to_owned())].into()),
            }),
            ..NetworkResource::default()
        };
        let (setup, attachment) = prepared(network).await;
        assert!(setup.unwrap_err().starts_with("unknown network mode \"unheard-of\""));
        let attachment = attachment.unwrap();
        assert_eq!(attachment.hostname.as_deref(), Some("site-0"));
        assert_eq!(attachment.dns.unwrap().searches, Some(vec!["app.lan".to_owned()]));
        assert_eq!(attachment.args["ID"], "01010101");
    }

    #[tokio::test]
    async fn a_host_name_that_breaks_the_hosts_file_is_refused() {
        let network = NetworkResource { hostname: "a b".into(), ..NetworkResource::default() };
        let (_, attachment) = prepared(network).await;
        assert_eq!(attachment.unwrap_err(), "hostname \"a b\" of the network is not a valid DNS name");
    }
}
