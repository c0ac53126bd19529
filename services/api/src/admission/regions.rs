//! Jobs that name regions (N-16, R-10.1). A cluster is one region: the job gets what it says of that region, and is refused if
//! it names others. Pure.

use std::collections::BTreeSet;

use api_types::{Job, MultiregionRegion};
use model::text::quoted;

use super::fields::{items, number, text};
use super::problems::Problems;

/// The modes of failure (N-16.2).
const FAILURES: [&str; 3] = ["", "fail_all", "fail_local"];

/// Fills in what a job says of its own region: datacenters and node pool in place of the job's, meta over the job's, and the
/// count of groups whose count is 0. The caller has set the region before.
pub(super) fn interpolate(job: &mut Job) {
    let Some(own) = regions(job).iter().find(|region| text(&region.name) == text(&job.region)).cloned()
    else {
        return;
    };
    if !items(&own.datacenters).is_empty() {
        job.datacenters = own.datacenters;
    }
    if !text(&own.node_pool).is_empty() {
        job.node_pool = own.node_pool;
    }
    if let Some(meta) = own.meta {
        job.meta.get_or_insert_default().extend(meta);
    }
    if let Some(count) = own.count {
        for group in job.task_groups.iter_mut().flatten().filter(|group| group.count == Some(0)) {
            group.count = Some(count);
        }
    }
}

/// The regions that a job names besides its own.
pub(super) fn others(job: &Job) -> impl Iterator<Item = &str> {
    let own = text(&job.region);
    regions(job).iter().map(|region| text(&region.name)).filter(move |name| *name != own)
}

/// What is wrong with what a job says of regions.
pub(super) fn problems(job: &Job) -> Problems {
    let mut problems = Problems::default();
    let Some(multiregion) = &job.multiregion else { return problems };
    problems.add_if(regions(job).is_empty(), || "Multiregion must name a region");
    let mut known = BTreeSet::new();
    for region in regions(job) {
        let name = text(&region.name);
        problems.add_if(name.is_empty(), || "Multiregion region has no name");
        problems.add_if(!known.insert(name), || format!("Multiregion region {} is duplicate", quoted(name)));
        problems.add_if(number(region.count) < 0, || {
            format!("Multiregion region {} has a negative count", quoted(name))
        });
    }
    if let Some(strategy) = &multiregion.strategy {
        let on_failure = text(&strategy.on_failure);
        problems.add_if(!FAILURES.contains(&on_failure), || {
            format!(
                "Multiregion strategy: on_failure must be empty, fail_all or fail_local, not {}",
                quoted(on_failure)
            )
        });
    }
    problems
}

fn regions(job: &Job) -> &[MultiregionRegion] {
    job.multiregion.as_ref().map_or(&[], |multiregion| items(&multiregion.regions))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(regions: Value) -> Job {
        let job = json!({
            "Region": "global", "Datacenters": ["*"], "Meta": { "a": "1", "b": "1" },
            "Multiregion": { "Strategy": { "OnFailure": "fail_all" }, "Regions": regions },
            "TaskGroups": [{ "Name": "g", "Count": 0 }, { "Name": "h", "Count": 2 }, { "Name": "i" }],
        });
        api_types::decode::from_slice(job.to_string().as_bytes()).unwrap()
    }

    // N-16.1, R-10.1
    #[test]
    fn a_job_gets_what_it_says_of_its_own_region() {
        let mut job = job(json!([
            { "Name": "west", "Count": 9 },
            { "Name": "global", "Count": 3, "Datacenters": ["dc2"], "NodePool": "gpu", "Meta": { "b": "2" } },
        ]));
        interpolate(&mut job);
        let counts: Vec<_> = items(&job.task_groups).iter().map(|group| group.count).collect();
        assert_eq!(counts, [Some(3), Some(2), None]);
        assert_eq!((items(&job.datacenters), text(&job.node_pool)), (&["dc2".to_owned()][..], "gpu"));
        let meta: Vec<_> = job.meta.as_ref().unwrap().values().map(String::as_str).collect();
        assert_eq!(meta, ["1", "2"]);
        let once = job.clone();
        interpolate(&mut job);
        assert_eq!(job, once);
        assert_eq!(others(&job).collect::<Vec<_>>(), ["west"]);
    }

    #[test]
    fn what_is_wrong_with_regions_is_named() {
        assert!(problems(&job(json!([{ "Name": "global" }]))).is_empty());
        let mut wrong = job(json!([{ "Name": "a", "Count": -1 }, { "Name": "a" }, {}]));
        let strategy = wrong.multiregion.as_mut().unwrap().strategy.as_mut().unwrap();
        strategy.on_failure = Some("fail_some".to_owned());
        let found = problems(&wrong).to_string();
        for part in ["\"a\" is duplicate", "\"a\" has a negative count", "has no name", "not \"fail_some\""] {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert!(!problems(&job(json!([]))).is_empty());
    }
}
