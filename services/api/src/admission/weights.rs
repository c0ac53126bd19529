//! Weights of affinities and spreads, which the reference keeps in a byte: what does not fit is refused as part of reading
//! the body, before any validation (http-api §11.1).

use api_types::{Affinity, Job, Spread};

use super::fields::items;

/// Checks that every weight fits.
///
/// # Errors
/// Names the first that does not.
pub(crate) fn fit(job: &Job) -> Result<(), String> {
    blocks("Job", &job.affinities, &job.spreads)?;
    for (place, group) in items(&job.task_groups).iter().enumerate() {
        let path = format!("Job.TaskGroups[{place}]");
        blocks(&path, &group.affinities, &group.spreads)?;
        for (place, task) in items(&group.tasks).iter().enumerate() {
            blocks(&format!("{path}.Tasks[{place}]"), &task.affinities, &None)?;
        }
    }
    Ok(())
}

fn blocks(
    path: &str,
    affinities: &Option<Vec<Affinity>>,
    spreads: &Option<Vec<Spread>>,
) -> Result<(), String> {
    let affinities = items(affinities).iter().map(|affinity| affinity.weight).enumerate();
    let spreads = items(spreads).iter().map(|spread| spread.weight).enumerate();
    let weights = affinities.map(|(place, weight)| ("Affinities", place, weight));
    for (list, place, weight) in weights.chain(spreads.map(|(place, weight)| ("Spreads", place, weight))) {
        let weight = weight.unwrap_or_default();
        if i8::try_from(weight).is_err() {
            let (least, most) = (i8::MIN, i8::MAX);
            return Err(format!("{path}.{list}[{place}].Weight: {weight} is not from {least} to {most}"));
        }
    }
    Ok(())
}
