//! The table of all routes: what answers them, or that nothing does yet.
//!
//! The first route that fits a path is taken, so of two that fit the narrower one stands first. A `:name` stands for any
//! text, also an empty one or one with slashes.

use super::{
    Handler, acl, agent, allocations, client, deployments, evaluations, events, figures, job, jobs, keyring,
    metrics, monitor, namespaces, node_pools, nodes, operator, plan, search, statuses, submission,
};

/// A route.
pub(crate) struct Route {
    /// Its path.
    pub(crate) path: &'static str,
    /// What answers it.
    pub(crate) serves: Serves,
}

/// What answers a route.
#[derive(Clone, Copy)]
pub(crate) enum Serves {
    /// A handler for each method that it takes.
    Methods(Methods),
    /// A handler for every method.
    Any(Handler),
    /// It is documented, but not built.
    NotBuilt,
    /// It is none of the open-source product's (http-api §33).
    Enterprise,
}

/// Handlers by method.
#[derive(Clone, Copy)]
pub(crate) struct Methods {
    pub(crate) get: Option<Handler>,
    pub(crate) put: Option<Handler>,
    /// Nearly everywhere the same as for PUT.
    pub(crate) post: Option<Handler>,
    pub(crate) delete: Option<Handler>,
}

const fn none(path: &'static str) -> Route {
    Route { path, serves: Serves::Methods(Methods { get: None, put: None, post: None, delete: None }) }
}

const fn get(path: &'static str, handler: Handler) -> Route {
    none(path).and_get(handler)
}

/// For PUT and POST alike.
const fn put(path: &'static str, handler: Handler) -> Route {
    none(path).and_put(handler)
}

/// For PUT and not for POST.
const fn put_only(path: &'static str, handler: Handler) -> Route {
    let methods = Methods { put: Some(handler), ..none(path).methods() };
    Route { path, serves: Serves::Methods(methods) }
}

const fn any(path: &'static str, handler: Handler) -> Route {
    Route { path, serves: Serves::Any(handler) }
}

const fn not_built(path: &'static str) -> Route {
    Route { path, serves: Serves::NotBuilt }
}

const fn enterprise(path: &'static str) -> Route {
    Route { path, serves: Serves::Enterprise }
}

impl Route {
    const fn methods(&self) -> Methods {
        let Serves::Methods(methods) = self.serves else { panic!("takes every method") };
        methods
    }

    const fn and_get(self, handler: Handler) -> Self {
        let methods = Methods { get: Some(handler), ..self.methods() };
        Self { path: self.path, serves: Serves::Methods(methods) }
    }

    const fn and_put(self, handler: Handler) -> Self {
        let methods = Methods { put: Some(handler), post: Some(handler), ..self.methods() };
        Self { path: self.path, serves: Serves::Methods(methods) }
    }

    const fn and_delete(self, handler: Handler) -> Self {
        let methods = Methods { delete: Some(handler), ..self.methods() };
        Self { path: self.path, serves: Serves::Methods(methods) }
    }
}

/// Makes a handler of an `async fn`.
macro_rules! waits {
    ($handler:path) => {
        |api, request| Box::pin($handler(api, request))
    };
}

/// Makes a handler of a function that does not wait.
macro_rules! at_once {
    ($handler:path) => {
        |api, request| Box::pin(std::future::ready($handler(api, request)))
    };
}

static ROUTES: &[Route] = &[
    // Jobs (http-api §11).
    get("/v1/jobs", waits!(jobs::list)).and_put(waits!(jobs::register)),
    put("/v1/jobs/parse", waits!(jobs::parse)),
    get("/v1/jobs/statuses", waits!(statuses::list)).and_put(waits!(statuses::named)),
    put("/v1/validate/job", waits!(jobs::validate)),
    put("/v1/job/:id/evaluate", waits!(job::evaluate)),
    get("/v1/job/:id/allocations", waits!(job::allocations)),
    get("/v1/job/:id/evaluations", waits!(job::evaluations)),
    not_built("/v1/job/:id/periodic/force"),
    put("/v1/job/:id/plan", waits!(plan::plan)),
    any("/v1/job/:id/summary", waits!(job::summary)),
    not_built("/v1/job/:id/dispatch"),
    not_built("/v1/job/:id/dispatch/payload"),
    any("/v1/job/:id/versions", waits!(job::versions)),
    not_built("/v1/job/:id/versions/:tag/tag"),
    not_built("/v1/job/:id/revert"),
    get("/v1/job/:id/deployments", waits!(job::deployments)),
    get("/v1/job/:id/deployment", waits!(job::deployment)),
    not_built("/v1/job/:id/stable"),
    not_built("/v1/job/:id/scale"),
    not_built("/v1/job/:id/services"),
    any("/v1/job/:id/submission", waits!(submission::read)),
    get("/v1/job/:id/actions", waits!(job::actions)),
    not_built("/v1/job/:id/action"),
    get("/v1/job/:id", waits!(job::read)).and_put(waits!(job::register)).and_delete(waits!(job::deregister)),
    // Allocations (§12).
    get("/v1/allocations", waits!(allocations::list)),
    put("/v1/allocation/:id/stop", waits!(allocations::stop)),
    not_built("/v1/allocation/:id/services"),
    get("/v1/allocation/:id", waits!(allocations::read)),
    // Files and logs of allocations (§13).
    any("/v1/client/fs/ls/:alloc", waits!(client::list)),
    any("/v1/client/fs/stat/:alloc", waits!(client::stat)),
    any("/v1/client/fs/cat/:alloc", waits!(client::cat)),
    any("/v1/client/fs/readat/:alloc", waits!(client::read_at)),
    any("/v1/client/fs/stream/:alloc", waits!(client::stream)),
    any("/v1/client/fs/logs/:alloc", waits!(client::logs)),
    any("/v1/client/fs/:other", at_once!(client::unknown)),
    // What else nodes answer (§14, §18).
    not_built("/v1/client/allocation/:id/exec"),
    any("/v1/client/allocation/:id/stats", waits!(figures::alloc)),
    not_built("/v1/client/allocation/:id/checks"),
    any("/v1/client/allocation/:id/restart", waits!(client::restart)),
    any("/v1/client/allocation/:id/signal", waits!(client::signal)),
    not_built("/v1/client/allocation/:id/pause"),
    not_built("/v1/client/allocation/:id/gc"),
    not_built("/v1/client/allocation/:id/snapshot"),
    not_built("/v1/client/gc"),
    any("/v1/client/stats", waits!(figures::host)),
    not_built("/v1/client/metadata"),
    not_built("/v1/client/identity"),
    not_built("/v1/client/identity/renew"),
    // Evaluations (§15).
    get("/v1/evaluations", waits!(evaluations::list)).and_delete(waits!(evaluations::delete)),
    get("/v1/evaluations/count", waits!(evaluations::count)),
    get("/v1/evaluation/:id/allocations", waits!(evaluations::allocations)),
    get("/v1/evaluation/:id", waits!(evaluations::read)),
    // Deployments (§16).
    get("/v1/deployments", waits!(deployments::list)),
    get("/v1/deployment/allocations/:id", waits!(deployments::allocations)),
    put("/v1/deployment/fail/:id", waits!(deployments::fail)),
    not_built("/v1/deployment/pause/:id"),
    not_built("/v1/deployment/promote/:id"),
    not_built("/v1/deployment/allocation-health/:id"),
    not_built("/v1/deployment/unblock/:id"),
    get("/v1/deployment/:id", waits!(deployments::read)),
    // Nodes and node pools (§17).
    get("/v1/nodes", waits!(nodes::list)),
    get("/v1/node/pools", waits!(node_pools::list)).and_put(waits!(node_pools::set)),
    get("/v1/node/pool/:name/nodes", waits!(node_pools::nodes)),
    get("/v1/node/pool/:name/jobs", waits!(node_pools::jobs)),
    get("/v1/node/pool/:name", waits!(node_pools::read))
        .and_put(waits!(node_pools::set))
        .and_delete(waits!(node_pools::delete)),
    get("/v1/node/:id/allocations", waits!(nodes::allocations)),
    put("/v1/node/:id/evaluate", waits!(nodes::evaluate)),
    not_built("/v1/node/:id/drain"),
    put("/v1/node/:id/eligibility", waits!(nodes::set_eligibility)),
    put("/v1/node/:id/purge", waits!(nodes::purge)),
    get("/v1/node/:id", waits!(nodes::read)),
    // Namespaces (§19).
    get("/v1/namespaces", waits!(namespaces::list)),
    put("/v1/namespace", waits!(namespaces::set)),
    get("/v1/namespace/:name", waits!(namespaces::read))
        .and_put(waits!(namespaces::set))
        .and_delete(waits!(namespaces::delete)),
    // Variables, services, volumes, plugins (§20 to §22).
    not_built("/v1/vars"),
    not_built("/v1/var/:path"),
    not_built("/v1/services"),
    not_built("/v1/service/:name"),
    not_built("/v1/volumes"),
    not_built("/v1/volumes/external"),
    not_built("/v1/volumes/snapshot"),
    not_built("/v1/volumes/claims"),
    not_built("/v1/volumes/claim/:id"),
    not_built("/v1/volume/csi/:id"),
    not_built("/v1/volume/host/:id"),
    not_built("/v1/plugins"),
    not_built("/v1/plugin/csi/:id"),
    // Access control (§23).
    any("/v1/acl/policies", at_once!(acl::disabled)),
    get("/v1/acl/policy/self", at_once!(acl::own_policy)),
    any("/v1/acl/policy/:name", at_once!(acl::disabled)),
    any("/v1/acl/bootstrap", at_once!(acl::disabled)),
    any("/v1/acl/tokens", at_once!(acl::disabled)),
    any("/v1/acl/token", at_once!(acl::disabled)),
    get("/v1/acl/token/self", waits!(acl::own_token)),
    any("/v1/acl/token/onetime", at_once!(acl::disabled)),
    any("/v1/acl/token/onetime/exchange", at_once!(acl::disabled)),
    any("/v1/acl/token/:accessor", at_once!(acl::disabled)),
    any("/v1/acl/roles", at_once!(acl::disabled)),
    any("/v1/acl/role", at_once!(acl::disabled)),
    any("/v1/acl/role/:id", at_once!(acl::disabled)),
    any("/v1/acl/auth-methods", at_once!(acl::disabled)),
    any("/v1/acl/auth-method", at_once!(acl::disabled)),
    any("/v1/acl/auth-method/:name", at_once!(acl::disabled)),
    any("/v1/acl/binding-rules", at_once!(acl::disabled)),
    any("/v1/acl/binding-rule", at_once!(acl::disabled)),
    any("/v1/acl/binding-rule/:id", at_once!(acl::disabled)),
    any("/v1/acl/oidc/auth-url", at_once!(acl::disabled)),
    any("/v1/acl/oidc/complete-auth", at_once!(acl::disabled)),
    any("/v1/acl/login", at_once!(acl::disabled)),
    // Scaling, search, events (§24 to §26).
    not_built("/v1/scaling/policies"),
    not_built("/v1/scaling/policy/:id"),
    put("/v1/search", waits!(search::prefix)),
    not_built("/v1/search/fuzzy"),
    get("/v1/event/stream", waits!(events::follow)),
    // The agent (§27).
    get("/v1/agent/self", waits!(agent::this)),
    get("/v1/agent/members", at_once!(agent::members)),
    get("/v1/agent/health", at_once!(agent::health)),
    put("/v1/agent/join", at_once!(agent::join)),
    put("/v1/agent/force-leave", at_once!(agent::force_leave)),
    get("/v1/agent/servers", at_once!(agent::servers)).and_put(at_once!(agent::set_servers)),
    get("/v1/agent/monitor", waits!(monitor::follow)),
    not_built("/v1/agent/monitor/export"),
    not_built("/v1/agent/pprof/:profile"),
    get("/v1/agent/host", waits!(figures::facts)),
    get("/v1/agent/schedulers", at_once!(agent::schedulers)),
    get("/v1/agent/schedulers/config", at_once!(agent::schedulers_config))
        .and_put(at_once!(agent::set_schedulers_config)),
    any("/v1/agent/keyring/:operation", at_once!(agent::keyring)),
    not_built("/v1/agent/reload"),
    // Status, regions, system (§28).
    get("/v1/status/leader", at_once!(agent::leader)),
    get("/v1/status/peers", at_once!(agent::peers)),
    get("/v1/regions", at_once!(agent::regions)),
    put_only("/v1/system/gc", waits!(operator::collect_garbage)),
    not_built("/v1/system/reconcile/summaries"),
    // Operator (§29).
    get("/v1/operator/scheduler/configuration", waits!(operator::scheduler))
        .and_put(waits!(operator::set_scheduler)),
    not_built("/v1/operator/raft/configuration"),
    not_built("/v1/operator/raft/peer"),
    not_built("/v1/operator/raft/transfer-leadership"),
    not_built("/v1/operator/autopilot/configuration"),
    not_built("/v1/operator/autopilot/health"),
    not_built("/v1/operator/snapshot"),
    get("/v1/operator/keyring/keys", waits!(keyring::list)),
    not_built("/v1/operator/keyring/rotate"),
    not_built("/v1/operator/keyring/key/:id"),
    not_built("/v1/operator/upgrade-check/vault-workload-identity"),
    get("/v1/operator/license", at_once!(operator::license)).and_put(at_once!(operator::set_license)),
    enterprise("/v1/operator/utilization"),
    // Metrics and keys (§30, §31).
    get("/v1/metrics", waits!(metrics::read)),
    get("/.well-known/jwks.json", waits!(keyring::web_keys)),
    get("/.well-known/openid-configuration", at_once!(keyring::discovery)),
    // What the open-source product does not have (§33).
    enterprise("/v1/sentinel/policies"),
    enterprise("/v1/sentinel/policy/:name"),
    enterprise("/v1/quotas"),
    enterprise("/v1/quota"),
    enterprise("/v1/quota/:name"),
    enterprise("/v1/quota-usages"),
    enterprise("/v1/recommendations"),
    enterprise("/v1/recommendations/apply"),
    enterprise("/v1/recommendation"),
    enterprise("/v1/recommendation/:id"),
    // The web interface (§34).
    get("/ui/:page", at_once!(agent::ui)),
];

/// The paths of all routes.
#[cfg(test)]
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    ROUTES.iter().map(|route| route.path)
}

/// The route of a path, and what stands in it for each `:name`.
pub(crate) fn find(path: &str) -> Option<(&'static Route, Vec<String>)> {
    ROUTES.iter().find_map(|route| Some((route, params(route.path, path)?)))
}

/// Where a path leads that is no route but for its end: what routes with a name have in front of it.
pub(crate) fn elsewhere(path: &str) -> Option<String> {
    if path == "/" {
        return Some("/ui/".to_owned());
    }
    let root = format!("{path}/");
    let is_root = |route: &Route| route.path.split_once(':').is_some_and(|(before, _)| before == root);
    ROUTES.iter().any(is_root).then_some(root)
}

/// What stands in `path` for each `:name` of `route`, if it fits.
fn params(route: &str, path: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = route.split_once(':') else {
        return (route == path).then(Vec::new);
    };
    let path = path.strip_prefix(before)?;
    let after = rest.find('/').map_or("", |end| &rest[end..]);
    // What follows the name up to the next one.
    let literal = after.split(':').next().unwrap_or_default();
    if after.len() == literal.len() {
        return path.strip_suffix(after).map(|value| vec![value.to_owned()]);
    }
    path.match_indices(literal).find_map(|(at, _)| {
        let mut values = params(after, &path[at..])?;
        values.insert(0, path[..at].to_owned());
        Some(values)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> (&'static str, Vec<String>) {
        let (route, params) = find(path).unwrap_or_else(|| panic!("{path} is no route"));
        (route.path, params)
    }

    #[test]
    fn every_route_is_reached() {
        for route in ROUTES {
            let path: Vec<&str> =
                route.path.split('/').map(|step| if step.starts_with(':') { "x" } else { step }).collect();
            assert_eq!(found(&path.join("/")).0, route.path);
        }
    }

    #[test]
    fn ids_may_hold_slashes() {
        assert_eq!(
            found("/v1/job/a/b/periodic-1/allocations"),
            ("/v1/job/:id/allocations", vec!["a/b/periodic-1".to_owned()])
        );
        assert_eq!(found("/v1/job/a/b"), ("/v1/job/:id", vec!["a/b".to_owned()]));
        assert_eq!(found("/v1/job/"), ("/v1/job/:id", vec![String::new()]));
        assert_eq!(
            found("/v1/job/a/versions/v1/tag"),
            ("/v1/job/:id/versions/:tag/tag", vec!["a".to_owned(), "v1".to_owned()])
        );
        assert_eq!(found("/v1/node/pool/x").0, "/v1/node/pool/:name");
    }

    #[test]
    fn what_is_no_route_is_none() {
        for path in
            ["/v1/nonsense", "/v1/", "/v1", "/v2/jobs", "/v1/jobs/nonsense", "/v1/jobs/", "/v1/status/x"]
        {
            assert!(find(path).is_none(), "{path}");
            assert_eq!(elsewhere(path), None, "{path}");
        }
        assert_eq!(elsewhere("/v1/job").as_deref(), Some("/v1/job/"));
        assert_eq!(elsewhere("/ui").as_deref(), Some("/ui/"));
        assert_eq!(elsewhere("/").as_deref(), Some("/ui/"));
    }
}
