//! Checks for errors in a syntactically valid job file that every server refuses. Unlike a server, this module knows their
//! lines. It does not evaluate expressions; errors that depend on their values are left to the server.

use std::collections::BTreeMap;

use model::schedule::check_cron;

use crate::{
    error::Faults,
    fault::Fault,
    suggest::nearest,
    syntax::{Attribute, Block, Body, Expression, Kind, NativeBody},
};

/// Maximum number of names in the message about an unknown name.
const NAMES_SHOWN_MAX: usize = 20;

/// Records the errors in the jobs of a file.
pub(crate) fn file(body: &Body, faults: &Faults) {
    // The JSON tree does not distinguish blocks from attributes.
    let Body::Native(body) = body else { return };
    for job in blocks(body, "job") {
        self::job(job, faults);
    }
}

fn blocks<'b>(body: &'b NativeBody, kind: &'b str) -> impl Iterator<Item = &'b NativeBody> {
    syntax(body, kind).filter_map(|block| match &block.body {
        Body::Native(body) => Some(&**body),
        Body::Json(_) => None,
    })
}

fn syntax<'b>(body: &'b NativeBody, kind: &'b str) -> impl Iterator<Item = &'b Block> {
    body.blocks.iter().filter(move |block| block.kind == kind)
}

/// The text of an attribute that needs no evaluation.
fn plain(attribute: &Attribute) -> Option<&str> {
    match &attribute.value.kind {
        Kind::Text(text) => Some(text),
        _ => None,
    }
}

fn text<'b>(body: &'b NativeBody, name: &str) -> Option<(&'b str, &'b Attribute)> {
    let attribute = body.attributes.iter().find(|attribute| attribute.name == name)?;
    Some((plain(attribute)?, attribute))
}

fn job(job: &NativeBody, faults: &Faults) {
    check_unique_names(job, "group", faults);
    for group in blocks(job, "group") {
        self::group(group, faults);
    }
    for periodic in blocks(job, "periodic") {
        for attribute in &periodic.attributes {
            match (attribute.name.as_str(), &attribute.value.kind) {
                ("cron", _) => cron(&attribute.value, faults),
                ("crons", Kind::Tuple(specs)) => specs.iter().for_each(|spec| cron(spec, faults)),
                _ => {}
            }
        }
    }
}

fn check_unique_names(body: &NativeBody, kind: &str, faults: &Faults) {
    let mut seen: BTreeMap<&str, ()> = BTreeMap::new();
    for block in syntax(body, kind) {
        let Some((name, at)) = block.labels.first() else { continue };
        if seen.insert(name, ()).is_some() {
            let detail = format!("{kind} {name:?} exists already; choose another name");
            faults.record(Fault::with_subject(at.clone(), "Duplicate {} name", kind, detail));
        }
    }
}

fn cron(spec: &Expression, faults: &Faults) {
    let Kind::Text(text) = &spec.kind else { return };
    let Err(reason) = check_cron(text) else { return };
    let detail = format!(
        "{reason}; expected five fields, minute hour day month weekday, such as \"0 3 * * *\", or a word such as @daily"
    );
    faults.record(Fault::new(spec.at.clone(), "Invalid cron spec", detail));
}

fn group(group: &NativeBody, faults: &Faults) {
    check_unique_names(group, "task", faults);
    let networks: Vec<&NativeBody> = blocks(group, "network").collect();
    networks.iter().for_each(|network| check_unique_names(network, "port", faults));
    let ports = networks.iter().flat_map(|network| syntax(network, "port"));
    let ports: Vec<&str> =
        ports.filter_map(|port| port.labels.first()).map(|(name, _)| name.as_str()).collect();
    let volumes: Vec<&str> = syntax(group, "volume")
        .filter_map(|volume| volume.labels.first())
        .map(|(name, _)| name.as_str())
        .collect();
    let may_generate = group.blocks.iter().any(|block| block.kind == "dynamic")
        || networks.iter().any(|network| network.blocks.iter().any(|block| block.kind == "dynamic"));
    for task in blocks(group, "task") {
        let in_task_resources =
            blocks(task, "resources").any(|resources| blocks(resources, "network").next().is_some());
        for mount in blocks(task, "volume_mount") {
            check_reference(mount, "volume", ("volume", &volumes), may_generate, faults);
        }
        services(task, &ports, may_generate || in_task_resources, faults);
    }
    services(group, &ports, may_generate, faults);
}

/// Checks the ports in services and their checks.
fn services(body: &NativeBody, ports: &[&str], may_generate: bool, faults: &Faults) {
    for service in blocks(body, "service") {
        for referrer in std::iter::once(service).chain(blocks(service, "check")) {
            check_reference(referrer, "port", ("port", ports), may_generate, faults);
        }
    }
}

/// Records an error if an argument refers to an unknown name.
fn check_reference(
    body: &NativeBody,
    argument: &str,
    (what, names): (&str, &[&str]),
    may_generate: bool,
    faults: &Faults,
) {
    let Some((name, attribute)) = text(body, argument) else { return };
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    if may_generate || is_number || name.contains("${") || names.contains(&name) {
        return;
    }
    let detail = match nearest(name, names) {
        Some(near) => format!("the group has no {what} {name:?}. Did you mean {near:?}?"),
        None if names.is_empty() => {
            format!("the group has no {what}s; define one: {what} {name:?} {{ … }}")
        }
        None => {
            let more = if names.len() > NAMES_SHOWN_MAX { ", …" } else { "" };
            let shown = names[..names.len().min(NAMES_SHOWN_MAX)].join(", ");
            format!("the group has no {what} {name:?}; it has {shown}{more}")
        }
    };
    faults.record(Fault::with_subject(attribute.value.at.clone(), "Unknown {}", what, detail));
}
