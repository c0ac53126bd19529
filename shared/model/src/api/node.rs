//! Conversion of nodes. The conversion of their resources is in `node_resources`.

use std::sync::Arc;

use super::public;
use crate::invalid::{At, Invalid};
use crate::mirror::{Member, Mirror, mirror, passthrough, text_members, write_always};
use crate::node::{
    Drain, DrainStatus, Driver, Eligibility, LastDrain, Node, NodeEvent, NodeHostVolume, NodeServerSide,
    NodeSpec, NodeStatus, Secret,
};
use crate::{Text, Timestamp};

passthrough!(api_types::ClientHostNetworkConfig, api_types::CsiInfo);
text_members!(DrainStatus, Eligibility, NodeStatus);
public!(
    Node = Node,
    Drain = DrainStrategy,
    Driver = DriverInfo,
    LastDrain = DrainMetadata,
    NodeEvent = NodeEvent,
    NodeHostVolume = ClientHostVolumeConfig,
);

/// The secret is read but never written. `Drain` is true if there is a drain strategy.
impl Mirror for Node {
    type Api = api_types::Node;

    fn from_api(api: Self::Api) -> Result<Self, Invalid> {
        let spec = NodeSpec {
            secret_id: Secret(Text::from(api.secret_id.unwrap_or_default())),
            boot: 0,
            name: Member::read(api.name).at("Name")?,
            datacenter: Member::read(api.datacenter).at("Datacenter")?,
            node_pool: Member::read(api.node_pool).at("NodePool")?,
            node_class: Member::read(api.node_class).at("NodeClass")?,
            computed_class: Member::read(api.computed_class).at("ComputedClass")?,
            http_addr: Member::read(api.http_addr).at("HTTPAddr")?,
            tls_enabled: Member::read(api.tls_enabled).at("TLSEnabled")?,
            cgroup_parent: Member::read(api.cgroup_parent).at("CgroupParent")?,
            attributes: Member::read(api.attributes).at("Attributes")?,
            meta: Member::read(api.meta).at("Meta")?,
            links: Member::read(api.links).at("Links")?,
            resources: Member::read(api.node_resources).at("NodeResources")?,
            reserved: Member::read(api.reserved_resources).at("ReservedResources")?,
            drivers: Member::read(api.drivers).at("Drivers")?,
            host_volumes: Member::read(api.host_volumes).at("HostVolumes")?,
            host_networks: Member::read(api.host_networks).at("HostNetworks")?,
            csi_controllers: Member::read(api.csi_controller_plugins).at("CSIControllerPlugins")?,
            csi_nodes: Member::read(api.csi_node_plugins).at("CSINodePlugins")?,
            gc_volumes: Member::read(api.gc_volumes_on_node_gc).at("GCVolumesOnNodeGC")?,
            max_allocs: Member::read(api.node_max_allocs).at("NodeMaxAllocs")?,
        };
        let server = NodeServerSide {
            status: Member::read(api.status).at("Status")?,
            status_description: Member::read(api.status_description).at("StatusDescription")?,
            status_updated_at: Timestamp::from_secs(api.status_updated_at.unwrap_or(0)),
            eligibility: Member::read(api.scheduling_eligibility).at("SchedulingEligibility")?,
            drain: Member::read(api.drain_strategy).at("DrainStrategy")?,
            last_drain: Member::read(api.last_drain).at("LastDrain")?,
            events: Member::read(api.events).at("Events")?,
            last_missed_heartbeat_index: Member::read(api.last_missed_heartbeat_index)
                .at("LastMissedHeartbeatIndex")?,
            last_alloc_update_index: Member::read(api.last_alloc_update_index).at("LastAllocUpdateIndex")?,
            create_index: Member::read(api.create_index).at("CreateIndex")?,
            modify_index: Member::read(api.modify_index).at("ModifyIndex")?,
        };
        Ok(Self { id: Member::read(api.id).at("ID")?, spec: Arc::new(spec), server })
    }

    fn to_api(&self) -> Self::Api {
        let Self { id, spec, server } = self;
        Self::Api {
            id: id.write(),
            secret_id: Some(String::new()),
            datacenter: spec.datacenter.write(),
            name: spec.name.write(),
            cgroup_parent: spec.cgroup_parent.write(),
            http_addr: spec.http_addr.write(),
            tls_enabled: spec.tls_enabled.write(),
            attributes: spec.attributes.write(),
            node_resources: spec.resources.write(),
            reserved_resources: spec.reserved.write(),
            links: spec.links.write(),
            meta: write_always(&spec.meta),
            node_class: spec.node_class.write(),
            node_pool: spec.node_pool.write(),
            computed_class: spec.computed_class.write(),
            drain_strategy: server.drain.write(),
            scheduling_eligibility: server.eligibility.write(),
            status: server.status.write(),
            status_description: server.status_description.write(),
            identity_signing_key_id: Some(String::new()),
            status_updated_at: Some(server.status_updated_at.as_secs()),
            events: server.events.write(),
            drivers: spec.drivers.write(),
            csi_controller_plugins: spec.csi_controllers.write(),
            csi_node_plugins: spec.csi_nodes.write(),
            host_volumes: write_always(&spec.host_volumes),
            gc_volumes_on_node_gc: spec.gc_volumes.write(),
            host_networks: spec.host_networks.write(),
            last_drain: server.last_drain.write(),
            node_max_allocs: spec.max_allocs.write(),
            last_missed_heartbeat_index: server.last_missed_heartbeat_index.write(),
            last_alloc_update_index: server.last_alloc_update_index.write(),
            create_index: server.create_index.write(),
            modify_index: server.modify_index.write(),
            drain: Some(server.drain.is_some()),
        }
    }
}

mirror! {
    Drain = DrainStrategy {
        deadline: "Deadline",
        ignore_system_jobs: "IgnoreSystemJobs",
        force_deadline: "ForceDeadline",
        started_at: "StartedAt",
    }
}

mirror! {
    LastDrain = DrainMetadata {
        started_at: "StartedAt",
        updated_at: "UpdatedAt",
        status: "Status",
        accessor_id: "AccessorID",
        meta: "Meta",
    }
}

mirror! {
    NodeEvent = NodeEvent {
        message: "Message",
        subsystem: "Subsystem",
        details: "Details",
        timestamp: "Timestamp",
        create_index: "CreateIndex",
    }
}

mirror! {
    Driver = DriverInfo {
        attributes: "Attributes",
        detected: "Detected",
        healthy: "Healthy",
        health_description: "HealthDescription",
        update_time: "UpdateTime",
    }
}

mirror! {
    NodeHostVolume = ClientHostVolumeConfig { name: "Name", path: "Path", read_only: "ReadOnly", id: "ID" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered() -> api_types::Node {
        api_types::Node {
            id: Some("a0de0001-0000-4000-8000-000000000001".into()),
            secret_id: Some("5ec4e700-0000-4000-8000-000000000001".into()),
            scheduling_eligibility: Some("eligible".into()),
            status: Some("ready".into()),
            ..Default::default()
        }
    }

    #[test]
    fn the_secret_is_read_but_never_shown() {
        let node = Node::from_api(registered()).unwrap();
        assert_eq!(&*node.spec.secret_id.0, "5ec4e700-0000-4000-8000-000000000001");
        assert_eq!(node.to_api().secret_id.as_deref(), Some(""));
        assert!(!format!("{node:?}").contains("5ec4e700"));
    }

    #[test]
    fn zeros_are_shown_and_what_is_absent_is_null() {
        let shown = Node::from_api(registered()).unwrap().to_api();
        assert_eq!(
            (shown.name.as_deref(), shown.drain, shown.node_max_allocs),
            (Some(""), Some(false), Some(0))
        );
        assert!(shown.drain_strategy.is_none() && shown.attributes.is_none() && shown.events.is_none());
    }

    #[test]
    fn invalid_values_are_refused_with_their_path() {
        let core = api_types::TopologyCore { id: Some(70_000), ..Default::default() };
        let topology = api_types::Topology { cores: Some(vec![core]), ..Default::default() };
        let processors = api_types::NodeProcessorResources { topology: Some(topology) };
        let node_resources = api_types::NodeResources { processors: Some(processors), ..Default::default() };
        let api = api_types::Node { node_resources: Some(node_resources), ..registered() };
        assert_eq!(
            Node::from_api(api).unwrap_err().to_string(),
            "NodeResources.Processors.Topology.Cores[0].ID: 70000 is too large"
        );
    }
}
