//! The table of all routes with their handlers.
//!
//! The first route that matches a path is taken, so a narrower route comes before a wider one. A `:name` segment matches
//! any text, including the empty text and text with slashes.

use super::{
    Handler, acl, agent, allocations, client, deployments, evaluations, events, job, jobs, keyring, metrics,
    monitor, namespaces, node_pools, nodes, operator, plan, search, stats, statuses, submission,
};

/// A route.
pub(crate) struct Route {
    /// Path.
    pub(crate) path: &'static str,
    /// What handles its requests.
    pub(crate) kind: RouteKind,
}

/// What handles the requests of a route.
#[derive(Clone, Copy)]
pub(crate) enum RouteKind {
    /// A handler for each accepted method.
    Methods(Methods),
    /// One handler for every method.
    Any(Handler),
    /// The route is documented, but not built.
    NotBuilt,
    /// The route belongs to Nomad Enterprise (http-api §33).
    Enterprise,
}

/// Handlers by method.
#[derive(Clone, Copy)]
pub(crate) struct Methods {
    pub(crate) get: Option<Handler>,
    pub(crate) put: Option<Handler>,
    /// On nearly all routes the same as for PUT.
    pub(crate) post: Option<Handler>,
    pub(crate) delete: Option<Handler>,
}

const fn none(path: &'static str) -> Route {
    Route { path, kind: RouteKind::Methods(Methods { get: None, put: None, post: None, delete: None }) }
}

const fn get(path: &'static str, handler: Handler) -> Route {
    none(path).and_get(handler)
}

/// For PUT and POST.
const fn put(path: &'static str, handler: Handler) -> Route {
    none(path).and_put(handler)
}

/// For PUT, but not for POST.
const fn put_only(path: &'static str, handler: Handler) -> Route {
    let methods = Methods { put: Some(handler), ..none(path).methods() };
    Route { path, kind: RouteKind::Methods(methods) }
}

const fn any(path: &'static str, handler: Handler) -> Route {
    Route { path, kind: RouteKind::Any(handler) }
}

const fn not_built(path: &'static str) -> Route {
    Route { path, kind: RouteKind::NotBuilt }
}

const fn enterprise(path: &'static str) -> Route {
    Route { path, kind: RouteKind::Enterprise }
}

impl Route {
    const fn methods(&self) -> Methods {
        let RouteKind::Methods(methods) = self.kind else { panic!("the route accepts every method") };
        methods
    }

    const fn and_get(self, handler: Handler) -> Self {
        let methods = Methods { get: Some(handler), ..self.methods() };
        Self { path: self.path, kind: RouteKind::Methods(methods) }
    }

    const fn and_put(self, handler: Handler) -> Self {
        let methods = Methods { put: Some(handler), post: Some(handler), ..self.methods() };
        Self { path: self.path, kind: RouteKind::Methods(methods) }
    }

    const fn and_delete(self, handler: Handler) -> Self {
        let methods = Methods { delete: Some(handler), ..self.methods() };
        Self { path: self.path, kind: RouteKind::Methods(methods) }
    }
}

/// Makes a [`Handler`] of an `async fn`.
macro_rules! handler {
    ($handler:path) => {
        |api, request| Box::pin($handler(api, request))
    };
}

/// Makes a [`Handler`] of a function that is not `async`.
macro_rules! sync_handler {
    ($handler:path) => {
        |api, request| Box::pin(std::future::ready($handler(api, request)))
    };
}

static ROUTES: &[Route] = &[
    // Jobs (http-api §11).
    get("/v1/jobs", handler!(jobs::list)).and_put(handler!(jobs::register)),
    put("/v1/jobs/parse", handler!(jobs::parse)),
    get("/v1/jobs/statuses", handler!(statuses::list)).and_put(handler!(statuses::named)),
    put("/v1/validate/job", handler!(jobs::validate)),
    put("/v1/job/:id/evaluate", handler!(job::evaluate)),
    get("/v1/job/:id/allocations", handler!(job::allocations)),
    get("/v1/job/:id/evaluations", handler!(job::evaluations)),
    not_built("/v1/job/:id/periodic/force"),
    put("/v1/job/:id/plan", handler!(plan::plan)),
    any("/v1/job/:id/summary", handler!(job::summary)),
    not_built("/v1/job/:id/dispatch"),
    not_built("/v1/job/:id/dispatch/payload"),
    any("/v1/job/:id/versions", handler!(job::versions)),
    not_built("/v1/job/:id/versions/:tag/tag"),
    not_built("/v1/job/:id/revert"),
    get("/v1/job/:id/deployments", handler!(job::deployments)),
    get("/v1/job/:id/deployment", handler!(job::deployment)),
    not_built("/v1/job/:id/stable"),
    not_built("/v1/job/:id/scale"),
    not_built("/v1/job/:id/services"),
    any("/v1/job/:id/submission", handler!(submission::read)),
    get("/v1/job/:id/actions", handler!(job::actions)),
    not_built("/v1/job/:id/action"),
    get("/v1/job/:id", handler!(job::read))
        .and_put(handler!(job::register))
        .and_delete(handler!(job::deregister)),
    // Allocations (§12).
    get("/v1/allocations", handler!(allocations::list)),
    put("/v1/allocation/:id/stop", handler!(allocations::stop)),
    not_built("/v1/allocation/:id/services"),
    get("/v1/allocation/:id", handler!(allocations::read)),
    // Files and logs of allocations (§13).
    any("/v1/client/fs/ls/:alloc", handler!(client::list)),
    any("/v1/client/fs/stat/:alloc", handler!(client::stat)),
    any("/v1/client/fs/cat/:alloc", handler!(client::cat)),
    any("/v1/client/fs/readat/:alloc", handler!(client::read_at)),
    any("/v1/client/fs/stream/:alloc", handler!(client::stream)),
    any("/v1/client/fs/logs/:alloc", handler!(client::logs)),
    any("/v1/client/fs/:other", sync_handler!(client::unknown)),
    // Other routes that nodes answer (§14, §18).
    not_built("/v1/client/allocation/:id/exec"),
    any("/v1/client/allocation/:id/stats", handler!(stats::alloc)),
    not_built("/v1/client/allocation/:id/checks"),
    any("/v1/client/allocation/:id/restart", handler!(client::restart)),
    any("/v1/client/allocation/:id/signal", handler!(client::signal)),
    not_built("/v1/client/allocation/:id/pause"),
    not_built("/v1/client/allocation/:id/gc"),
    not_built("/v1/client/allocation/:id/snapshot"),
    not_built("/v1/client/gc"),
    any("/v1/client/stats", handler!(stats::host)),
    not_built("/v1/client/metadata"),
    not_built("/v1/client/identity"),
    not_built("/v1/client/identity/renew"),
    // Evaluations (§15).
    get("/v1/evaluations", handler!(evaluations::list)).and_delete(handler!(evaluations::delete)),
    get("/v1/evaluations/count", handler!(evaluations::count)),
    get("/v1/evaluation/:id/allocations", handler!(evaluations::allocations)),
    get("/v1/evaluation/:id", handler!(evaluations::read)),
    // Deployments (§16).
    get("/v1/deployments", handler!(deployments::list)),
    get("/v1/deployment/allocations/:id", handler!(deployments::allocations)),
    put("/v1/deployment/fail/:id", handler!(deployments::fail)),
    not_built("/v1/deployment/pause/:id"),
    not_built("/v1/deployment/promote/:id"),
    not_built("/v1/deployment/allocation-health/:id"),
    not_built("/v1/deployment/unblock/:id"),
    get("/v1/deployment/:id", handler!(deployments::read)),
    // Nodes and node pools (§17).
    get("/v1/nodes", handler!(nodes::list)),
    get("/v1/node/pools", handler!(node_pools::list)).and_put(handler!(node_pools::set)),
    get("/v1/node/pool/:name/nodes", handler!(node_pools::nodes)),
    get("/v1/node/pool/:name/jobs", handler!(node_pools::jobs)),
    get("/v1/node/pool/:name", handler!(node_pools::read))
        .and_put(handler!(node_pools::set))
        .and_delete(handler!(node_pools::delete)),
    get("/v1/node/:id/allocations", handler!(nodes::allocations)),
    put("/v1/node/:id/evaluate", handler!(nodes::evaluate)),
    not_built("/v1/node/:id/drain"),
    put("/v1/node/:id/eligibility", handler!(nodes::set_eligibility)),
    put("/v1/node/:id/purge", handler!(nodes::purge)),
    get("/v1/node/:id", handler!(nodes::read)),
    // Namespaces (§19).
    get("/v1/namespaces", handler!(namespaces::list)),
    put("/v1/namespace", handler!(namespaces::set)),
    get("/v1/namespace/:name", handler!(namespaces::read))
        .and_put(handler!(namespaces::set))
        .and_delete(handler!(namespaces::delete)),
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
    any("/v1/acl/policies", sync_handler!(acl::disabled)),
    get("/v1/acl/policy/self", sync_handler!(acl::own_policy)),
    any("/v1/acl/policy/:name", sync_handler!(acl::disabled)),
    any("/v1/acl/bootstrap", sync_handler!(acl::disabled)),
    any("/v1/acl/tokens", sync_handler!(acl::disabled)),
    any("/v1/acl/token", sync_handler!(acl::disabled)),
    get("/v1/acl/token/self", handler!(acl::own_token)),
    any("/v1/acl/token/onetime", sync_handler!(acl::disabled)),
    any("/v1/acl/token/onetime/exchange", sync_handler!(acl::disabled)),
    any("/v1/acl/token/:accessor", sync_handler!(acl::disabled)),
    any("/v1/acl/roles", sync_handler!(acl::disabled)),
    any("/v1/acl/role", sync_handler!(acl::disabled)),
    any("/v1/acl/role/:id", sync_handler!(acl::disabled)),
    any("/v1/acl/auth-methods", sync_handler!(acl::disabled)),
    any("/v1/acl/auth-method", sync_handler!(acl::disabled)),
    any("/v1/acl/auth-method/:name", sync_handler!(acl::disabled)),
    any("/v1/acl/binding-rules", sync_handler!(acl::disabled)),
    any("/v1/acl/binding-rule", sync_handler!(acl::disabled)),
    any("/v1/acl/binding-rule/:id", sync_handler!(acl::disabled)),
    any("/v1/acl/oidc/auth-url", sync_handler!(acl::disabled)),
    any("/v1/acl/oidc/complete-auth", sync_handler!(acl::disabled)),
    any("/v1/acl/login", sync_handler!(acl::disabled)),
    // Scaling, search, events (§24 to §26).
    not_built("/v1/scaling/policies"),
    not_built("/v1/scaling/policy/:id"),
    put("/v1/search", handler!(search::prefix)),
    not_built("/v1/search/fuzzy"),
    get("/v1/event/stream", handler!(events::follow)),
    // The agent (§27).
    get("/v1/agent/self", handler!(agent::this)),
    get("/v1/agent/members", sync_handler!(agent::members)),
    get("/v1/agent/health", sync_handler!(agent::health)),
    put("/v1/agent/join", sync_handler!(agent::join)),
    put("/v1/agent/force-leave", sync_handler!(agent::force_leave)),
    get("/v1/agent/servers", sync_handler!(agent::servers)).and_put(sync_handler!(agent::set_servers)),
    get("/v1/agent/monitor", handler!(monitor::follow)),
    not_built("/v1/agent/monitor/export"),
    not_built("/v1/agent/pprof/:profile"),
    get("/v1/agent/host", handler!(stats::facts)),
    get("/v1/agent/schedulers", sync_handler!(agent::schedulers)),
    get("/v1/agent/schedulers/config", sync_handler!(agent::schedulers_config))
        .and_put(sync_handler!(agent::set_schedulers_config)),
    any("/v1/agent/keyring/:operation", sync_handler!(agent::keyring)),
    not_built("/v1/agent/reload"),
    // Status, regions, system (§28).
    get("/v1/status/leader", sync_handler!(agent::leader)),
    get("/v1/status/peers", sync_handler!(agent::peers)),
    get("/v1/regions", sync_handler!(agent::regions)),
    put_only("/v1/system/gc", handler!(operator::collect_garbage)),
    not_built("/v1/system/reconcile/summaries"),
    // Operator (§29).
    get("/v1/operator/scheduler/configuration", handler!(operator::scheduler))
        .and_put(handler!(operator::set_scheduler)),
    not_built("/v1/operator/raft/configuration"),
    not_built("/v1/operator/raft/peer"),
    not_built("/v1/operator/raft/transfer-leadership"),
    not_built("/v1/operator/autopilot/configuration"),
    not_built("/v1/operator/autopilot/health"),
    not_built("/v1/operator/snapshot"),
    get("/v1/operator/keyring/keys", handler!(keyring::list)),
    not_built("/v1/operator/keyring/rotate"),
    not_built("/v1/operator/keyring/key/:id"),
    not_built("/v1/operator/upgrade-check/vault-workload-identity"),
    get("/v1/operator/license", sync_handler!(operator::license))
        .and_put(sync_handler!(operator::set_license)),
    enterprise("/v1/operator/utilization"),
    // Metrics and keys (§30, §31).
    get("/v1/metrics", handler!(metrics::read)),
    get("/.well-known/jwks.json", handler!(keyring::web_keys)),
    get("/.well-known/openid-configuration", sync_handler!(keyring::discovery)),
    // Nomad Enterprise (§33).
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
    get("/ui/:page", sync_handler!(agent::ui)),
];

/// The paths of all routes.
#[cfg(test)]
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    ROUTES.iter().map(|route| route.path)
}

/// The route that matches a path, with the values of its `:name` segments.
pub(crate) fn find(path: &str) -> Option<(&'static Route, Vec<String>)> {
    ROUTES.iter().find_map(|route| Some((route, params(route.path, path)?)))
}

/// Redirect target of a path that lacks only the slash at its end.
pub(crate) fn redirect_target(path: &str) -> Option<String> {
    if path == "/" {
        return Some("/ui/".to_owned());
    }
    let root = format!("{path}/");
    let is_root = |route: &Route| route.path.split_once(':').is_some_and(|(before, _)| before == root);
    ROUTES.iter().any(is_root).then_some(root)
}

/// Values of the `:name` segments of `route` in `path`, if it matches.
fn params(route: &str, path: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = route.split_once(':') else {
        return (route == path).then(Vec::new);
    };
    let path = path.strip_prefix(before)?;
    let after = rest.find('/').map_or("", |end| &rest[end..]);
    // The literal text between this name and the next one.
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
            assert_eq!(redirect_target(path), None, "{path}");
        }
        assert_eq!(redirect_target("/v1/job").as_deref(), Some("/v1/job/"));
        assert_eq!(redirect_target("/ui").as_deref(), Some("/ui/"));
        assert_eq!(redirect_target("/").as_deref(), Some("/ui/"));
    }
}
