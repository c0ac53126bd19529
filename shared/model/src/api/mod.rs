//! Between the domain and the API's JSON, for every object but jobs, which `job` converts.
//!
//! Faithful and structural in both directions: absent is zero, nothing is looked up and no default applies. What an
//! answer of the API takes from elsewhere (an allocation's job, an evaluation's relatives, a namespace's hash) is
//! left empty here for whoever answers.

mod alloc;
mod cluster;
mod deployment;
mod eval;
mod metric;
mod node;
mod node_resources;
mod resources;
mod task_state;
mod volume;

use crate::invalid::Invalid;
use crate::mirror::text_members;
use crate::{AllocId, DeploymentId, EvalId, HostVolumeId, NodeId, VolumeClaimId};

/// Gives a [`Mirror`](crate::mirror::Mirror) its two conversions by name, for other crates.
macro_rules! public {
    ($($ours:ident = $theirs:ident),+ $(,)?) => { $(
        impl $ours {
            /// Converts the API's object, or says which of its values cannot be.
            pub fn from_api(api: api_types::$theirs) -> Result<Self, $crate::Invalid> {
                $crate::mirror::Mirror::from_api(api)
            }

            /// The API's object as reads show it.
            pub fn to_api(&self) -> api_types::$theirs {
                $crate::mirror::Mirror::to_api(self)
            }
        }
    )+ };
}
use public;

text_members!(AllocId, DeploymentId, EvalId, HostVolumeId, NodeId, VolumeClaimId);

/// Refuses a value that is given and is not what its object belongs to.
fn agree<T: PartialEq + std::fmt::Display + ?Sized>(given: Option<&T>, expected: &T) -> Result<(), Invalid> {
    match given {
        Some(given) if given != expected => Err(Invalid::new(format!("{given} is not {expected}"))),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Text;
    use crate::invalid::At;
    use crate::mirror::Member;

    #[test]
    fn an_empty_id_is_none_where_there_may_be_none() {
        assert_eq!(Option::<NodeId>::read(Some(String::new())), Ok(None));
        assert_eq!(Option::<NodeId>::read(None), Ok(None));
        assert_eq!(None::<NodeId>.write(), Some(String::new()));
        let error = NodeId::read(None).unwrap_err();
        assert_eq!(error.to_string(), r#"node id "": UUID must be 36 characters"#);
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused_in_its_place() {
        let error = Vec::<u16>::read(Some(vec![1_u64, 70_000])).at("Cores").unwrap_err();
        assert_eq!(error.to_string(), "Cores[1]: 70000 is too large");
        let counts = BTreeMap::from([("dc1".to_owned(), -1_i64)]);
        let error = BTreeMap::<Text, u32>::read(Some(counts)).at("NodesAvailable").unwrap_err();
        assert_eq!(error.to_string(), "NodesAvailable[dc1]: -1 is negative");
    }
}
