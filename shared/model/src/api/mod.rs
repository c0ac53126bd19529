//! Conversions between the domain and the API for all objects except jobs, which the module `job` converts.
//!
//! The conversions are structural in both directions: an absent value is zero, nothing is looked up and no defaults are
//! applied. Members of API responses that come from other objects (an allocation's job, an evaluation's related
//! evaluations, a namespace's hash) are left empty; the API service fills them in.

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

/// Adds the two conversions of a [`Mirror`](crate::mirror::Mirror) as public methods, because the trait is private.
macro_rules! public {
    ($($ours:ident = $theirs:ident),+ $(,)?) => { $(
        impl $ours {
            /// Converts an object of the API. The error contains the path of the first invalid value.
            pub fn from_api(api: api_types::$theirs) -> Result<Self, $crate::Invalid> {
                $crate::mirror::Mirror::from_api(api)
            }

            /// Converts to the object of API responses.
            pub fn to_api(&self) -> api_types::$theirs {
                $crate::mirror::Mirror::to_api(self)
            }
        }
    )+ };
}
use public;

text_members!(AllocId, DeploymentId, EvalId, HostVolumeId, NodeId, VolumeClaimId);

/// Returns an error if `given` is set and differs from `expected`.
fn require_equal<T: PartialEq + std::fmt::Display + ?Sized>(
    given: Option<&T>,
    expected: &T,
) -> Result<(), Invalid> {
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
