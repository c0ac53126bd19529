//! `drover service info`: shows the instances of a service.

use std::process::ExitCode;

use anyhow::Context as _;
use api_types::{ServiceRegistration, ServiceRegistrationListStub};
use serde_json::Value;

use super::{NOTHING, list};
use crate::cli::client::escaped;
use crate::cli::page::Page;
use crate::cli::paging::{self, Paging};
use crate::cli::{ApiCommand, Session, flags, format};

/// How an error of a request begins.
const ERROR: &str = "Error listing service registrations";

/// Shows the instances of a service.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The name of a service, or the beginning of the name of one service only.
    service: String,
    #[command(flatten)]
    show: flags::Show,
    #[command(flatten)]
    paging: Paging,
}

impl ApiCommand for Args {
    async fn run(self, mut session: Session) -> anyhow::Result<ExitCode> {
        let found: Vec<ServiceRegistrationListStub> =
            session.client.get("/v1/services", &[("prefix", &self.service)]).await.context(ERROR)?;
        let (namespace, name) = match chosen(&found, &self.service) {
            Choice::One { namespace, name } => (namespace, name),
            Choice::Nothing => {
                anyhow::bail!("No service(s) with prefix or name \"{}\" found", self.service)
            }
            Choice::Several => {
                let mut page = Page::default();
                list::table(&mut page, &found, session.client.namespace() == Some("*"));
                anyhow::bail!("Prefix matched multiple services\n\n{}", page.to_string().trim_end());
            }
        };
        session.client.select(Some(&namespace), None);
        let path = format!("/v1/service/{}", escaped(&name));
        let paging = self.paging.query();
        let query: Vec<_> = paging.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if self.show.object.is_requested() {
            let (instances, next): (Value, _) =
                session.client.get_page(&path, &query).await.context(ERROR)?;
            self.show.object.print(session.output, &instances)?;
            paging::report_next(session.output, next.as_deref());
            return Ok(ExitCode::SUCCESS);
        }
        let (instances, next): (Vec<ServiceRegistration>, _) =
            session.client.get_page(&path, &query).await.context(ERROR)?;
        let mut page = Page::default();
        match (&instances[..], self.show.verbose) {
            ([], _) => page.line(NOTHING),
            (instances, false) => table(&mut page, instances),
            (instances, true) => blocks(&mut page, instances),
        }
        if let Some(token) = next {
            paging::print_next(&mut page, &token);
        }
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}

/// The service that a name or a prefix means.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    One { namespace: String, name: String },
    Nothing,
    Several,
}

/// The service with this name, or the only one whose name begins with it.
fn chosen(found: &[ServiceRegistrationListStub], given: &str) -> Choice {
    let services = || {
        found.iter().flat_map(|stub| {
            let services = stub.services.iter().flatten();
            services.map(move |service| {
                (format::text(stub.namespace.as_ref()), format::text(service.service_name.as_ref()))
            })
        })
    };
    let exact: Vec<_> = services().filter(|(_, name)| name == given).collect();
    let candidates = if exact.is_empty() { services().collect() } else { exact };
    let mut candidates = candidates.into_iter();
    match (candidates.next(), candidates.next()) {
        (None, _) => Choice::Nothing,
        (Some((namespace, name)), None) => Choice::One { namespace, name },
        (Some(_), Some(_)) => Choice::Several,
    }
}

/// Where an instance is reached.
fn address(instance: &ServiceRegistration) -> String {
    format!("{}:{}", format::text(instance.address.as_ref()), format::number(instance.port))
}

fn tags(instance: &ServiceRegistration) -> String {
    format!("[{}]", instance.tags.as_deref().unwrap_or_default().join(","))
}

fn table(page: &mut Page, instances: &[ServiceRegistration]) {
    let rows = instances.iter().map(|instance| {
        [
            format::text(instance.job_id.as_ref()),
            address(instance),
            tags(instance),
            format::id(instance.node_id.as_ref(), false),
            format::id(instance.alloc_id.as_ref(), false),
        ]
    });
    page.table(&["Job ID", "Address", "Tags", "Node ID", "Alloc ID"], rows);
}

fn blocks(page: &mut Page, instances: &[ServiceRegistration]) {
    for instance in instances {
        page.block(&[
            ("ID", format::text(instance.id.as_ref())),
            ("Service Name", format::text(instance.service_name.as_ref())),
            ("Namespace", format::text(instance.namespace.as_ref())),
            ("Job ID", format::text(instance.job_id.as_ref())),
            ("Alloc ID", format::text(instance.alloc_id.as_ref())),
            ("Node ID", format::text(instance.node_id.as_ref())),
            ("Datacenter", format::text(instance.datacenter.as_ref())),
            ("Address", address(instance)),
            ("Tags", tags(instance)),
        ]);
        page.line("");
    }
}

#[cfg(test)]
mod tests {
    use api_types::ServiceRegistrationStub;

    use super::*;

    fn found(names: &[&str]) -> Vec<ServiceRegistrationListStub> {
        let service = |name: &&str| ServiceRegistrationStub {
            service_name: Some((*name).to_owned()),
            tags: Some(Vec::new()),
        };
        vec![ServiceRegistrationListStub {
            namespace: Some("default".to_owned()),
            services: Some(names.iter().map(service).collect()),
        }]
    }

    #[test]
    fn a_name_means_its_service_and_a_prefix_the_only_one() {
        let one = |name: &str| Choice::One { namespace: "default".to_owned(), name: name.to_owned() };
        assert_eq!(chosen(&found(&["web", "web-admin"]), "web"), one("web"));
        assert_eq!(chosen(&found(&["web-admin"]), "web"), one("web-admin"));
        assert_eq!(chosen(&found(&["web-admin", "web-api"]), "web"), Choice::Several);
        assert_eq!(chosen(&found(&[]), "web"), Choice::Nothing);
        let both: Vec<_> = found(&["web"]).into_iter().chain(found(&["web"])).collect();
        assert_eq!(chosen(&both, "web"), Choice::Several, "in two namespaces");
    }

    #[test]
    fn instances_are_shown_with_their_addresses() {
        let instance = ServiceRegistration {
            id: Some("_nomad-task-1".to_owned()),
            job_id: Some("shop".to_owned()),
            alloc_id: Some("a0000000-0000".to_owned()),
            node_id: Some("40000000-0000".to_owned()),
            tags: Some(vec!["a".to_owned(), "b".to_owned()]),
            address: Some("10.0.0.1".to_owned()),
            port: Some(8080),
            ..ServiceRegistration::default()
        };
        let mut page = Page::default();
        table(&mut page, std::slice::from_ref(&instance));
        let expected = "Job ID  Address        Tags   Node ID   Alloc ID\n\
                        shop    10.0.0.1:8080  [a,b]  40000000  a0000000\n";
        assert_eq!(page.to_string(), expected);
        let mut page = Page::default();
        blocks(&mut page, &[instance]);
        let text = page.to_string();
        assert!(text.starts_with("ID           = _nomad-task-1\nService Name = <none>\n"), "{text}");
        assert!(
            text.contains("\nNode ID      = 40000000-0000\n") && text.ends_with("Tags         = [a,b]\n\n")
        );
    }
}
