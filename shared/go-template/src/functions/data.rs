//! Data of the task and of the cluster: environment, services, files.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use gotmpl::Value;
use sha2::{Digest as _, Sha256};

use super::{Named, World};
use crate::arguments::Arguments;
use crate::value::{list, map, string, strings};
use crate::{Answer, Service};

/// The functions of this module.
pub(super) const FUNCTIONS: &[Named] = &[
    ("byTag", by_tag),
    ("env", env),
    ("envOrDefault", env_or_default),
    ("file", file),
    ("mustEnv", must_env),
    ("nomadService", nomad_service),
    ("nomadServices", nomad_services),
];

fn env(world: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(1, 1)?;
    Ok(string(world.data.env(&arguments.text(0)?).unwrap_or_default()))
}

fn env_or_default(world: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(2, 2)?;
    match world.data.env(&arguments.text(0)?) {
        Some(value) => Ok(string(value)),
        None => Ok(string(arguments.text(1)?)),
    }
}

fn must_env(world: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(1, 1)?;
    let name = arguments.text(0)?;
    let missing = || format!("the environment variable {name} is not set");
    world.data.env(&name).map(string).ok_or_else(missing)
}

fn file(world: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(1, 1)?;
    world.data.file(&arguments.text(0)?).map(string)
}

/// `nomadService NAME`, or `nomadService COUNT HASH NAME`, which chooses as many instances by the hash. The name may be
/// `TAG.NAME`.
fn nomad_service(world: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    let (chosen, query) = match arguments.0.len() {
        1 => (None, arguments.text(0)?),
        3 => (Some((arguments.length(0, usize::MAX)?, arguments.text(1)?)), arguments.text(2)?),
        given => return Err(format!("it takes the name, or count, hash and name, not {given} arguments")),
    };
    if query.contains('@') {
        return Err(format!("{query:?} names another region, of which services cannot be read"));
    }
    let (tag, name) = match query.rsplit_once('.') {
        Some((tag, name)) => (Some(tag), name),
        None => (None, query.as_str()),
    };
    if name.is_empty() {
        return Err("the name of the service is empty".to_owned());
    }
    let mut found = match world.data.service(name) {
        Answer::Known(found) => found,
        Answer::Unknown => {
            missing(world, format!("nomad.service({query})"));
            Vec::new()
        }
        Answer::Refused(reason) => return Err(reason),
    };
    found.retain(|service| tag.is_none_or(|tag| service.tags.iter().any(|own| own == tag)));
    found.sort_by(|a, b| a.id.cmp(&b.id));
    if let Some((count, hash)) = chosen {
        found.sort_by_cached_key(|service| Sha256::digest(format!("{hash}\0{}", service.id)).to_vec());
        found.truncate(count);
    }
    Ok(list(found.into_iter().map(instance)))
}

fn nomad_services(world: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(0, 0)?;
    let mut found = match world.data.services() {
        Answer::Known(found) => found,
        Answer::Unknown => {
            missing(world, "nomad.services".to_owned());
            Vec::new()
        }
        Answer::Refused(reason) => return Err(reason),
    };
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let shown = found.into_iter().map(|service| {
        map([("Name".to_owned(), string(service.name)), ("Tags".to_owned(), strings(service.tags))])
    });
    Ok(list(shown))
}

/// Groups services by their tags.
fn by_tag(_: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(1, 1)?;
    let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for service in arguments.list(0)? {
        let Some(Value::List(tags)) = service.field("Tags") else {
            return Err("argument 1 must be a list of services".to_owned());
        };
        for tag in tags.iter().filter_map(Value::as_str) {
            groups.entry(tag.to_owned()).or_default().push(service.clone());
        }
    }
    Ok(map(groups.into_iter().map(|(tag, services)| (tag, list(services)))))
}

fn instance(service: Service) -> Value {
    let texts = [
        ("ID", service.id),
        ("Name", service.name),
        ("Node", service.node),
        ("Address", service.address),
        ("Datacenter", service.datacenter),
        ("JobID", service.job_id),
        ("AllocID", service.alloc_id),
    ];
    let members = texts.into_iter().map(|(key, text)| (key.to_owned(), string(text)));
    let others = [("Port".to_owned(), Value::Int(service.port)), ("Tags".to_owned(), strings(service.tags))];
    map(members.chain(others))
}

fn missing(world: &World, what: String) {
    // A poisoned lock is harmless, because each change is a single step.
    world.missing.lock().unwrap_or_else(PoisonError::into_inner).insert(what);
}
