//! Replaces names in the texts of services and checks by their values, and selects the tags and metadata of
//! canaries. Pure: `fill` replaces the names in one text.

use std::collections::BTreeMap;

use model::Text;
use model::job::{Service, ServiceCheck};
use model::text::quoted;

/// The maximum length of a service's name, in bytes (RFC 1123).
const NAME_BYTES_MAX: usize = 63;

/// A service with its names replaced: name, port, address, tags, metadata, further addresses, and those of its checks.
///
/// # Errors
/// If a text cannot be filled in, or the name is not one afterwards. The message names the service.
pub(crate) fn filled<E: std::fmt::Display>(
    service: &Service,
    mut fill: impl FnMut(&str) -> Result<String, E>,
) -> Result<Service, String> {
    let mut fill = |text: &str| -> Result<Text, String> {
        // Most texts contain no names, and are shared.
        let filled = fill(text).map_err(|error| format!("service {}: a text {error}", quoted(&service.name)));
        filled.map(Text::from)
    };
    let name = fill(&service.name)?;
    if !is_name(&name) {
        return Err(format!(
            "service name {} must be 1 to {NAME_BYTES_MAX} letters, digits and hyphens, without a hyphen at either end",
            quoted(&name)
        ));
    }
    let checks = service.checks.iter().map(|check| filled_check(check, &mut fill));
    let checks = checks.collect::<Result<Vec<_>, _>>()?;
    Ok(Service {
        name,
        port_label: fill(&service.port_label)?,
        address: fill(&service.address)?,
        tags: list(&service.tags, &mut fill)?,
        canary_tags: list(&service.canary_tags, &mut fill)?,
        meta: map(&service.meta, &mut fill)?,
        canary_meta: map(&service.canary_meta, &mut fill)?,
        tagged_addresses: map(&service.tagged_addresses, &mut fill)?,
        checks,
        ..service.clone()
    })
}

/// The tags of a service: `canary_tags`, if it has any, while the allocation is a canary.
pub(crate) fn tags(service: &Service, is_canary: bool) -> &[Text] {
    if is_canary && !service.canary_tags.is_empty() { &service.canary_tags } else { &service.tags }
}

/// The metadata of a service: `canary_meta`, if it has any, while the allocation is a canary.
pub(crate) fn meta(service: &Service, is_canary: bool) -> &BTreeMap<Text, Text> {
    if is_canary && !service.canary_meta.is_empty() { &service.canary_meta } else { &service.meta }
}

fn filled_check(
    check: &ServiceCheck,
    fill: &mut impl FnMut(&str) -> Result<Text, String>,
) -> Result<ServiceCheck, String> {
    let mut header = BTreeMap::new();
    for (name, values) in &check.header {
        header.insert(fill(name)?, list(values, fill)?);
    }
    Ok(ServiceCheck {
        name: fill(&check.name)?,
        command: fill(&check.command)?,
        args: list(&check.args, fill)?,
        path: fill(&check.path)?,
        protocol: fill(&check.protocol)?,
        port_label: fill(&check.port_label)?,
        notes: fill(&check.notes)?,
        tls_server_name: fill(&check.tls_server_name)?,
        method: fill(&check.method)?,
        header,
        grpc_service: fill(&check.grpc_service)?,
        body: fill(&check.body)?,
        ..check.clone()
    })
}

fn list(texts: &[Text], fill: &mut impl FnMut(&str) -> Result<Text, String>) -> Result<Vec<Text>, String> {
    texts.iter().map(|text| fill(text)).collect()
}

fn map(
    pairs: &BTreeMap<Text, Text>,
    fill: &mut impl FnMut(&str) -> Result<Text, String>,
) -> Result<BTreeMap<Text, Text>, String> {
    pairs.iter().map(|(key, value)| Ok((fill(key)?, fill(value)?))).collect()
}

/// Whether a text is the name of a service. Admission checks names that need no interpolation (N-19.13).
fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces `${X}` by `x`, and fails at `!`.
    fn fill(text: &str) -> Result<String, &'static str> {
        if text.contains('!') { Err("contains !") } else { Ok(text.replace("${X}", "x")) }
    }

    fn service() -> Service {
        Service { name: "web-${X}".into(), ..Service::default() }
    }

    //
    #[test]
    fn names_are_replaced_in_all_texts_of_services_and_checks() {
        let check = ServiceCheck {
            path: "/${X}".into(),
            port_label: "${X}".into(),
            header: [("H-${X}".into(), vec!["v-${X}".into()])].into(),
            body: "b${X}".into(),
            args: vec!["-${X}".into()],
            ..ServiceCheck::default()
        };
        let service = Service {
            port_label: "p${X}".into(),
            address: "${X}.example.net".into(),
            tags: vec!["t-${X}".into(), "plain".into()],
            canary_tags: vec!["c-${X}".into()],
            meta: [("k".into(), "${X}".into())].into(),
            checks: vec![check],
            ..service()
        };
        let filled = filled(&service, fill).unwrap();
        assert_eq!((&*filled.name, &*filled.port_label, &*filled.address), ("web-x", "px", "x.example.net"));
        assert_eq!(filled.tags, ["t-x", "plain"]);
        assert_eq!(filled.canary_tags, ["c-x"]);
        assert_eq!(&*filled.meta["k"], "x");
        let check = &filled.checks[0];
        assert_eq!((&*check.path, &*check.port_label, &*check.body), ("/x", "x", "bx"));
        assert_eq!(check.header["H-x"], ["v-x"]);
        assert_eq!(check.args, ["-x"]);
    }

    #[test]
    fn errors_name_the_service() {
        let tagged = Service { tags: vec!["!".into()], ..service() };
        assert_eq!(filled(&tagged, fill).unwrap_err(), "service \"web-${X}\": a text contains !");
        for name in ["", "a_b", "-a", "a-", "${Y}", &"a".repeat(64)] {
            let named = Service { name: name.into(), ..Service::default() };
            let error = filled(&named, fill).unwrap_err();
            assert!(
                error.starts_with(&format!("service name \"{name}\" must be 1 to 63 letters")),
                "{error}"
            );
        }
        assert!(filled(&Service { name: "a".repeat(63).into(), ..Service::default() }, fill).is_ok());
    }

    //
    #[test]
    fn canaries_have_tags_and_metadata_of_their_own_if_the_job_gives_them() {
        let own = Service {
            tags: vec!["live".into()],
            canary_tags: vec!["canary".into()],
            meta: [("a".into(), "1".into())].into(),
            ..Service::default()
        };
        assert_eq!(tags(&own, true), ["canary"]);
        assert_eq!(tags(&own, false), ["live"]);
        assert_eq!(meta(&own, true), &own.meta, "there is no canary_meta");
        let plain = Service { canary_tags: Vec::new(), ..own };
        assert_eq!(tags(&plain, true), ["live"]);
    }
}
