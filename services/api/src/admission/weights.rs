//! Range check of the weights of affinities and spreads. The reference decodes them as `int8`, so a weight that does not
//! fit is a decoding error there: it comes before any validation and has the decoder's text (http-api §11.1).

use api_types::{Affinity, Job, Spread};

use super::fields::items;

/// Checks that every weight fits into an `i8`.
///
/// # Errors
/// The decoder's text for the first weight that does not fit.
pub(crate) fn fit(job: &Job) -> Result<(), String> {
    blocks("Job", &job.affinities, &job.spreads)?;
    for group in items(&job.task_groups) {
        blocks("Job.TaskGroups", &group.affinities, &group.spreads)?;
        for task in items(&group.tasks) {
            blocks("Job.TaskGroups.Tasks", &task.affinities, &None)?;
        }
    }
    Ok(())
}

fn blocks(
    path: &str,
    affinities: &Option<Vec<Affinity>>,
    spreads: &Option<Vec<Spread>>,
) -> Result<(), String> {
    let affinities = items(affinities).iter().map(|affinity| ("Affinity.", "Affinities", affinity.weight));
    let spreads = items(spreads).iter().map(|spread| ("Spread.", "Spreads", spread.weight));
    for (kind, list, weight) in affinities.chain(spreads) {
        let weight = weight.unwrap_or_default();
        if i8::try_from(weight).is_err() {
            return Err(format!(
                "json: cannot unmarshal number {weight} into Go struct field {kind}{path}.{list}.Weight of type int8"
            ));
        }
    }
    Ok(())
}
