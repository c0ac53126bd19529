//! Every field of a job has a treatment, which is the real one: it is used, refused, warned about, or listed as harmless.
//!
//! The fields come from the schema of jobs, which is that of the API's types.

mod table;

use api_types::Job;
use model::features::Feature;
use model::text::quoted;
use serde_json::{Map, Value, json};
use state::State;

use self::table::{FIELDS, Treatment, VALUES};
use super::RULES;
use crate::admission::{check, fill_defaults, not_built, warnings};
use crate::testing::{ROOT, has_word, state_of};

const SCHEMA: &str = include_str!("../../../../../../docs/job.schema.json");
/// A text for fields. It is also valid Base64, for payloads.
const TEXT: &str = "eA==";
/// The types that the walk begins with.
const JOB: &str = "Job";

/// A field of a type, at one of its places in a job.
struct Place<'s> {
    owner: &'s str,
    field: &'s str,
    path: Vec<Step<'s>>,
    /// The field's part of the schema.
    shape: &'s Value,
}

/// A field on the way to a place.
#[derive(Clone, Copy)]
struct Step<'s> {
    field: &'s str,
    is_list: bool,
}

/// The properties of a type in the schema.
fn properties<'s>(schema: &'s Value, owner: &str) -> &'s Map<String, Value> {
    schema["$defs"][owner]["properties"].as_object().unwrap()
}

/// The type of a field or of its items, if it has fields itself.
fn referenced(shape: &Value) -> Option<&str> {
    let members = shape.as_object()?;
    if let Some(link) = members.get("$ref") {
        return link.as_str()?.strip_prefix("#/$defs/");
    }
    let alternatives = members.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let inner = ["items", "additionalProperties"].into_iter().filter_map(|name| members.get(name));
    alternatives.chain(inner).find_map(referenced)
}

fn treatment(owner: &str, field: &str) -> Option<Treatment> {
    let (_, fields) = FIELDS.iter().find(|(known, _)| *known == owner)?;
    fields.iter().find(|(known, _)| *known == field).map(|(_, treatment)| *treatment)
}

/// All places below a type. The parts of a field that is not used are left out: they are treated as the field is.
fn places<'s>(schema: &'s Value, owner: &'s str, before: &[Step<'s>], found: &mut Vec<Place<'s>>) {
    for (field, shape) in properties(schema, owner) {
        let step = Step { field, is_list: kind(shape) == "array" };
        let path: Vec<Step<'s>> = before.iter().copied().chain([step]).collect();
        if let (Some(Treatment::Used(..)), Some(inner)) = (treatment(owner, field), referenced(shape)) {
            places(schema, inner, &path, found);
        }
        found.push(Place { owner, field, path, shape });
    }
}

/// The JSON type of a field; empty if it is that of a definition, or any.
fn kind(shape: &Value) -> &str {
    let kind = &shape["type"];
    kind.as_str().or_else(|| kind[0].as_str()).unwrap_or_default()
}

/// A value of a field, with all its parts.
fn sample(schema: &Value, shape: &Value) -> Value {
    if let Some(alternatives) = shape["anyOf"].as_array() {
        return sample(schema, &alternatives[0]);
    }
    match kind(shape) {
        "integer" => json!(1),
        "number" => json!(1.5),
        "boolean" => json!(true),
        "array" => json!([sample(schema, &shape["items"])]),
        "object" => {
            let inner = sample(schema, &shape["additionalProperties"]);
            Value::Object([(TEXT.to_owned(), inner)].into_iter().collect())
        }
        _ => match referenced(shape) {
            Some(inner) => {
                let parts = properties(schema, inner).iter();
                Value::Object(parts.map(|(name, part)| (name.clone(), sample(schema, part))).collect())
            }
            None => json!(TEXT),
        },
    }
}

/// A valid job in which the field at a place has this value.
fn job_with(place: &Place<'_>, value: Value) -> Job {
    let mut job = json!({
        "ID": "a", "Region": "global", "Namespace": "default",
        "TaskGroups": [{ "Name": "g", "Tasks": [{ "Name": "t", "Driver": "raw_exec" }] }],
    });
    let (last, steps) = place.path.split_last().unwrap();
    let mut parent = &mut job;
    for step in steps {
        parent = &mut parent[step.field];
        if step.is_list {
            if parent.is_null() {
                *parent = json!([{}]);
            }
            parent = &mut parent[0];
        }
    }
    parent[last.field] = value;
    api_types::decode::from_slice(job.to_string().as_bytes()).unwrap()
}

fn with_defaults(mut job: Job) -> Job {
    fill_defaults(&mut job, &RULES);
    job
}

/// Checks that a field is treated as the table says.
fn check_treatment(treatment: Treatment, place: &Place<'_>, sample: Value, state: &State) {
    let at: Vec<&str> = place.path.iter().map(|step| step.field).collect();
    let at = at.join(".");
    let missing = |feature: Feature| {
        assert!(!feature.is_built(), "{at}: the list says that {feature:?} is built");
        feature
    };
    let job = || job_with(place, sample.clone());
    let (text, expected) = match treatment {
        Treatment::Used(file, word) => {
            assert!(has_word(file, word), "{at}: {file} does not use {word}");
            return;
        }
        Treatment::Harmless(_) => return,
        Treatment::Refused(feature) => {
            (not_built(&with_defaults(job())).to_string(), missing(feature).refusal())
        }
        Treatment::Invalid(text) => {
            let invalid = check(&with_defaults(job()), state, &RULES).unwrap_err();
            (invalid.problems.to_string(), text.to_owned())
        }
        Treatment::Warned(feature) => (warnings(&job(), state).to_string(), missing(feature).absence()),
        Treatment::Deprecated(text) => (warnings(&job(), state).to_string(), text.to_owned()),
    };
    assert!(text.contains(&expected), "{at}: expected {expected:?} in {text:?}");
}

#[test]
fn every_field_is_treated_as_the_table_says() {
    let (schema, state) = (serde_json::from_str(SCHEMA).unwrap(), state_of(Vec::new()));
    let mut found = Vec::new();
    places(&schema, JOB, &[], &mut found);
    assert!(found.len() > 200, "{}", found.len());
    for place in &found {
        let Some(treatment) = treatment(place.owner, place.field) else {
            panic!("{}.{} needs an entry: is it used, refused or harmless?", place.owner, place.field)
        };
        check_treatment(treatment, place, sample(&schema, place.shape), &state);
    }
    for (owner, fields) in FIELDS {
        for (field, _) in *fields {
            let is_there = found.iter().any(|place| place.owner == *owner && place.field == *field);
            assert!(is_there, "{owner}.{field} is no field, or below one that is not used");
        }
    }
    for (owner, field, value, feature) in VALUES {
        assert!(!feature.is_built(), "{owner}.{field}: the list says that {feature:?} is built");
        let of_field = found.iter().filter(|place| place.owner == *owner && place.field == *field);
        for place in of_field {
            let text = not_built(&with_defaults(job_with(place, json!(value)))).to_string();
            let is_named = text.contains(feature.name()) || text.contains(&quoted(value));
            assert!(is_named, "{owner}.{field} = {value}: {text:?}");
        }
    }
}

/// The page with all fields that are not used.
fn page() -> String {
    let mut page = "# Fields of a job

The fields of a job that Drover does not use, by their names in the HTTP API. All other fields are used. A job that needs
what is not built is refused with a message that names it. A warning is part of the response to the registration, and
`drover job run` prints it. This page is generated by `UPDATE_DOCS=1 cargo test --package api --lib fields`.

| field | |
|---|---|
"
    .to_owned();
    let refusal = |feature: Feature| format!("{} not built yet", feature.subject());
    for (owner, fields) in FIELDS {
        for (field, treatment) in *fields {
            let text = match treatment {
                Treatment::Used(..) => continue,
                Treatment::Refused(feature) => refusal(*feature),
                Treatment::Invalid(text) => format!("invalid: {text}"),
                Treatment::Warned(feature) => format!("warning: {}", feature.absence()),
                Treatment::Deprecated(text) => format!("warning: {text}"),
                Treatment::Harmless(why) => format!("no effect: {why}"),
            };
            page.push_str(&format!("| `{owner}.{field}` | {text} |\n"));
        }
    }
    for (owner, field, value, feature) in VALUES {
        page.push_str(&format!("| `{owner}.{field}` = `{value}` | {} |\n", refusal(*feature)));
    }
    page
}

#[test]
fn the_documented_list_of_fields_is_that_of_the_table() {
    let file = format!("{ROOT}/docs/operations/job-fields.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, page()).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(stored == page(), "{file} is stale: UPDATE_DOCS=1 cargo test --package api --lib fields");
}
