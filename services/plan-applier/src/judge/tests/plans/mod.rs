//! Plans: which attempts count, what fits on nodes, what is accepted, and the outcome of the evaluation.

mod attempts;
mod fields;
mod nodes;

use model::alloc::{
    AllocCommon, Assigned, AssignedNetwork, AssignedPort, AssignedTask, PackedAssigned, PortMapping,
};
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::{JobType, NetworkResource, Port};
use model::plan::Stops;
use model::{AllocId, EvalId, JobKey};

use super::scene::Scene;

/// A stop of allocations without a client status or follow-up.
fn stops(ids: &[AllocId]) -> Stops {
    Stops {
        ids: ids.iter().copied().collect(),
        description: "alloc not needed due to job update".into(),
        client_status: None,
        followup_eval: None,
        reschedule: None,
    }
}

/// An evaluation that another service creates.
fn eval(scene: &mut Scene, job: &JobKey, status: EvalStatus) -> Evaluation {
    let id = EvalId::from_bytes(scene.id());
    let eval = Evaluation::new(id, job.clone(), JobType::Service, 60, EvalTrigger::QueuedAllocs);
    Evaluation { status, ..eval }
}

/// The common part with a port `http` of the group.
pub(super) fn with_port(mut common: AllocCommon) -> AllocCommon {
    let port = Port { label: "http".into(), ..Port::default() };
    common.resources.networks =
        vec![NetworkResource { dynamic_ports: vec![port], ..NetworkResource::default() }];
    common.resources.ports = vec![PortMapping { label: "http".into(), ..PortMapping::default() }];
    common
}

pub(super) fn port(value: u16) -> PackedAssigned {
    let network = AssignedNetwork { device: "eth0".into(), ip: "10.0.0.1".into(), ports: vec![value] };
    let port = AssignedPort { value, to: 0, host_ip: "10.0.0.1".into() };
    PackedAssigned::pack(&Assigned { networks: vec![network], ports: vec![port], tasks: Vec::new() })
}

fn cores(cores: &[u16]) -> PackedAssigned {
    let task = AssignedTask { task: "web".into(), cpu_mhz: 100, cores: cores.to_vec(), devices: Vec::new() };
    PackedAssigned::pack(&Assigned { tasks: vec![task], ..Assigned::default() })
}
