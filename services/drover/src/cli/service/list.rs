//! `drover service list`: lists the services of a namespace.

use std::process::ExitCode;

use anyhow::Context as _;
use api_types::{ServiceRegistrationListStub, ServiceRegistrationStub};
use serde_json::Value;

use super::NOTHING;
use crate::cli::object::Object;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, format};

/// Lists services with the tags of their instances.
///
/// With `-namespace '*'` lists those of all namespaces.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    object: Object,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        const ERROR: &str = "Error listing service registrations";
        if self.object.is_requested() {
            let services: Value = session.client.get("/v1/services", &[]).await.context(ERROR)?;
            self.object.print(session.output, &services)?;
            return Ok(ExitCode::SUCCESS);
        }
        let services: Vec<ServiceRegistrationListStub> =
            session.client.get("/v1/services", &[]).await.context(ERROR)?;
        let mut page = Page::default();
        if services.is_empty() {
            page.line(NOTHING);
        } else {
            table(&mut page, &services, session.client.namespace() == Some("*"));
        }
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}

/// A table of services, with their namespaces if `with_namespaces`.
pub(super) fn table(page: &mut Page, namespaces: &[ServiceRegistrationListStub], with_namespaces: bool) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for ServiceRegistrationListStub { namespace, services } in namespaces {
        for ServiceRegistrationStub { service_name, tags } in services.iter().flatten() {
            let tags = format!("[{}]", tags.as_deref().unwrap_or_default().join(","));
            let mut row = vec![format::text(service_name.as_ref())];
            if with_namespaces {
                row.push(format::text(namespace.as_ref()));
            }
            row.push(tags);
            rows.push(row);
        }
    }
    rows.sort();
    let header: &[&str] =
        if with_namespaces { &["Service Name", "Namespace", "Tags"] } else { &["Service Name", "Tags"] };
    page.table(header, rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_listed_by_name() {
        let service = |name: &str, tags: &[&str]| ServiceRegistrationStub {
            service_name: Some(name.to_owned()),
            tags: Some(tags.iter().map(|tag| (*tag).to_owned()).collect()),
        };
        let namespaces = [ServiceRegistrationListStub {
            namespace: Some("default".to_owned()),
            services: Some(vec![service("web", &["a", "b"]), service("api", &[])]),
        }];
        let shown = |with_namespaces| {
            let mut page = Page::default();
            table(&mut page, &namespaces, with_namespaces);
            page.to_string()
        };
        assert_eq!(shown(false), "Service Name  Tags\napi           []\nweb           [a,b]\n");
        let all =
            "Service Name  Namespace  Tags\napi           default    []\nweb           default    [a,b]\n";
        assert_eq!(shown(true), all);
    }
}
