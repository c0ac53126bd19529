//! [`Object`] for each type that lists can filter (http-api §7.2). The fields that filters use most are read from the state
//! directly. For all other fields the object is serialized.

use std::borrow::Cow;

use model::SmallObject;
use model::cluster::NodePool;
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::Job;
use model::node::Node;
use model::service::ServiceRegistration;
use model::volume::{CsiVolume, HostVolume, VolumeClaim};
use serde::Serialize;
use serde_json::Value;
use state::AllocRef;

use super::{Filter, FilterError, Object};
use crate::shapes;

/// Whether an object matches a filter. Without a filter every object does.
///
/// # Errors
/// If the filter exceeds its limits.
pub(crate) fn matches_filter(filter: Option<&Filter>, object: &dyn Object) -> Result<bool, FilterError> {
    filter.map_or(Ok(true), |filter| filter.matches(object))
}

fn json(api: &impl Serialize) -> Value {
    serde_json::to_value(api).expect("plain data always serializes to JSON")
}

fn id(id: impl ToString) -> Cow<'static, str> {
    Cow::Owned(id.to_string())
}

impl Object for Job {
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>> {
        Some(match field {
            "ID" => (&*self.spec.id).into(),
            "Name" => (&*self.spec.name).into(),
            "Namespace" => (&*self.spec.namespace).into(),
            "NodePool" => (&*self.spec.node_pool).into(),
            "Type" => id(self.spec.kind),
            "Status" => self.status.as_str().into(),
            _ => return None,
        })
    }

    fn to_json(&self) -> Value {
        json(&self.to_api())
    }
}

impl Object for AllocRef<'_> {
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>> {
        Some(match field {
            "ID" => id(AllocRef::id(*self)),
            "Name" => id(self.name()),
            "Namespace" => (&*self.job_key().namespace).into(),
            "JobID" => (&*self.job_key().id).into(),
            "TaskGroup" => (&**self.group_name()).into(),
            "EvalID" => id(self.eval_id()),
            "NodeID" => id(self.node_id()),
            "NodeName" => (&**self.node_name()).into(),
            "DesiredStatus" => id(self.desired_status()),
            "ClientStatus" => id(self.client_status()),
            _ => return None,
        })
    }

    fn to_json(&self) -> Value {
        json(&shapes::alloc(*self))
    }
}

impl Object for Evaluation {
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>> {
        Some(match field {
            "ID" => id(self.id),
            "Namespace" => (&*self.job.namespace).into(),
            "JobID" => (&*self.job.id).into(),
            "Status" => self.status.as_str().into(),
            _ => return None,
        })
    }

    fn to_json(&self) -> Value {
        json(&self.to_api())
    }
}

impl Object for Deployment {
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>> {
        Some(match field {
            "ID" => id(self.id),
            "Namespace" => (&*self.job.job.namespace).into(),
            "JobID" => (&*self.job.job.id).into(),
            "Status" => self.status.as_str().into(),
            _ => return None,
        })
    }

    fn to_json(&self) -> Value {
        json(&self.to_api())
    }
}

impl Object for Node {
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>> {
        Some(match field {
            "ID" => id(self.id),
            "Name" => (&*self.spec.name).into(),
            "Datacenter" => (&*self.spec.datacenter).into(),
            "NodePool" => (&*self.spec.node_pool).into(),
            "NodeClass" => (&*self.spec.node_class).into(),
            _ => return None,
        })
    }

    fn to_json(&self) -> Value {
        json(&self.to_api())
    }
}

impl Object for NodePool {
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>> {
        (field == "Name").then(|| (&*self.name).into())
    }

    fn to_json(&self) -> Value {
        json(&self.shape())
    }
}

impl Object for HostVolume {
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>> {
        Some(match field {
            "ID" => id(self.id),
            "Name" => (&*self.name).into(),
            "Namespace" => (&*self.namespace).into(),
            "PluginID" => (&*self.plugin_id).into(),
            "NodePool" => (&*self.node_pool).into(),
            "State" => self.state.as_str().into(),
            _ => return None,
        })
    }

    fn to_json(&self) -> Value {
        json(&self.shape())
    }
}

impl Object for VolumeClaim {
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>> {
        Some(match field {
            "ID" => id(self.id),
            "JobID" => (&*self.job.id).into(),
            "VolumeName" => (&*self.volume_name).into(),
            _ => return None,
        })
    }

    fn to_json(&self) -> Value {
        json(&self.shape())
    }
}

impl Object for CsiVolume {
    fn stored_field(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }

    fn to_json(&self) -> Value {
        json(&self.shape())
    }
}

impl Object for ServiceRegistration {
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>> {
        Some(match field {
            "ID" => (&*self.key.id).into(),
            "ServiceName" => (&*self.key.name).into(),
            "Namespace" => (&*self.key.namespace).into(),
            "JobID" => (&*self.job_id).into(),
            "Datacenter" => (&*self.datacenter).into(),
            "Address" => (&*self.address).into(),
            "AllocID" => id(self.alloc_id),
            "NodeID" => id(self.node_id),
            _ => return None,
        })
    }

    fn to_json(&self) -> Value {
        json(&self.shape())
    }
}
