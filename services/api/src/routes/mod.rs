//! The table of all routes, with their handlers, which are in the modules of this folder.
//!
//! A route is one line here: its path, a handler for each method, and the reference's timer of the corresponding RPC if it
//! has one. The first route that matches a path is taken, so a narrower route comes before a wider one.

mod acl;
mod agent;
mod allocations;
mod children;
mod client;
mod cluster;
mod deployment_writes;
mod deployments;
mod evaluations;
mod events;
mod exec;
mod job;
mod jobs;
mod keyring;
mod metrics;
mod monitor;
mod namespaces;
mod node_meta;
mod node_pools;
mod nodes;
mod operator;
mod plan;
mod raft;
mod route;
mod scaling;
mod search;
mod search_fuzzy;
mod services;
mod small_objects;
mod stats;
mod statuses;
mod submission;
mod version_writes;
mod volume_writes;
mod volumes;

use model::features::Feature;

use self::route::{
    Endpoint, Route, any, delete, enterprise, get, handler, not_built, off, post_only, put, put_only,
    sync_handler,
};
pub(crate) use self::route::{Handler, Request};
use crate::http::unescape;

static ROUTES: &[Route] = &[
    // Jobs (http-api §11).
    get("/v1/jobs", handler!(jobs::list, JOB_LIST)).and_put(handler!(jobs::register, JOB_REGISTER)),
    put("/v1/jobs/parse", handler!(jobs::parse)),
    post_only("/v1/jobs/statuses", handler!(statuses::named, JOB_STATUSES))
        .and_get(handler!(statuses::list, JOB_STATUSES)),
    put("/v1/validate/job", handler!(jobs::validate, JOB_VALIDATE)),
    put("/v1/job/:id/evaluate", handler!(job::evaluate, JOB_EVALUATE)),
    get("/v1/job/:id/allocations", handler!(job::allocations, JOB_ALLOCATIONS)),
    get("/v1/job/:id/evaluations", handler!(job::evaluations, JOB_EVALUATIONS)),
    put("/v1/job/:id/periodic/force", handler!(children::force_launch)),
    put("/v1/job/:id/plan", handler!(plan::plan, JOB_PLAN)),
    any("/v1/job/:id/summary", handler!(job::summary, JOB_GET_SUMMARY)),
    put("/v1/job/:id/dispatch", handler!(children::dispatch)),
    put("/v1/job/:id/dispatch/payload", handler!(children::dispatch_payload)),
    any("/v1/job/:id/versions", handler!(job::versions, JOB_GET_VERSIONS)),
    put("/v1/job/:id/versions/:tag/tag", handler!(version_writes::tag))
        .and_delete(handler!(version_writes::untag)),
    put("/v1/job/:id/revert", handler!(version_writes::revert)),
    get("/v1/job/:id/deployments", handler!(job::deployments, JOB_DEPLOYMENTS)),
    get("/v1/job/:id/deployment", handler!(job::deployment, JOB_LATEST_DEPLOYMENT)),
    put("/v1/job/:id/stable", handler!(version_writes::set_stability)),
    get("/v1/job/:id/scale", handler!(scaling::status)).and_put(handler!(scaling::scale)),
    get("/v1/job/:id/services", handler!(services::of_job)),
    any("/v1/job/:id/submission", handler!(submission::read, JOB_GET_SUBMISSION)),
    get("/v1/job/:id/actions", handler!(job::actions)),
    any("/v1/job/:id/action", handler!(exec::action)),
    get("/v1/job/:id", handler!(job::read, JOB_GET_JOB))
        .and_put(handler!(job::register, JOB_REGISTER))
        .and_delete(handler!(job::deregister, JOB_DEREGISTER)),
    // Allocations (§12).
    get("/v1/allocations", handler!(allocations::list, ALLOC_LIST)),
    put("/v1/allocation/:id/stop", handler!(allocations::stop, ALLOC_STOP)),
    get("/v1/allocation/:id/services", handler!(services::of_alloc)),
    any("/v1/allocation/:id/:other", sync_handler!(allocations::unknown)),
    get("/v1/allocation/:id", handler!(allocations::read, ALLOC_GET_ALLOC)),
    // Files and logs of allocations (§13).
    any("/v1/client/fs/ls/:alloc", handler!(client::list)),
    any("/v1/client/fs/stat/:alloc", handler!(client::stat)),
    any("/v1/client/fs/cat/:alloc", handler!(client::cat)),
    any("/v1/client/fs/readat/:alloc", handler!(client::read_at)),
    any("/v1/client/fs/stream/:alloc", handler!(client::stream)),
    any("/v1/client/fs/logs/:alloc", handler!(client::logs)),
    any("/v1/client/fs/:other", sync_handler!(client::unknown)),
    // Other routes that nodes answer (§14, §18).
    any("/v1/client/allocation/:id/exec", handler!(exec::exec)),
    any("/v1/client/allocation/:id/stats", handler!(stats::alloc)),
    any("/v1/client/allocation/:id/checks", handler!(stats::checks)),
    any("/v1/client/allocation/:id/restart", handler!(client::restart)),
    put("/v1/client/allocation/:id/signal", handler!(client::signal)),
    get("/v1/client/allocation/:id/pause", handler!(client::pause)).and_put(handler!(client::pause)),
    any("/v1/client/allocation/:id/gc", handler!(client::collect_alloc)),
    not_built("/v1/client/allocation/:id/snapshot", Feature::DiskMigration),
    any("/v1/client/allocation/:other", sync_handler!(allocations::unknown)),
    any("/v1/client/gc", handler!(client::collect_node)),
    any("/v1/client/stats", handler!(stats::host)),
    post_only("/v1/client/metadata", handler!(node_meta::change)).and_get(handler!(node_meta::read)),
    not_built("/v1/client/identity", Feature::NodeIdentities),
    not_built("/v1/client/identity/renew", Feature::NodeIdentities),
    // Evaluations (§15).
    get("/v1/evaluations", handler!(evaluations::list, EVAL_LIST))
        .and_delete(handler!(evaluations::delete, EVAL_DELETE)),
    get("/v1/evaluations/count", handler!(evaluations::count, EVAL_COUNT)),
    get("/v1/evaluation/:id/allocations", handler!(evaluations::allocations, EVAL_ALLOCATIONS)),
    get("/v1/evaluation/:id", handler!(evaluations::read, EVAL_GET_EVAL)),
    // Deployments (§16).
    get("/v1/deployments", handler!(deployments::list)),
    get("/v1/deployment/allocations/:id", handler!(deployments::allocations)),
    put("/v1/deployment/fail/:id", handler!(deployment_writes::fail)),
    put("/v1/deployment/pause/:id", handler!(deployment_writes::pause)),
    put("/v1/deployment/promote/:id", handler!(deployment_writes::promote)),
    put("/v1/deployment/allocation-health/:id", handler!(deployment_writes::set_health)),
    put("/v1/deployment/unblock/:id", handler!(deployment_writes::unblock)),
    get("/v1/deployment/:id", handler!(deployments::read)),
    // Nodes and node pools (§17).
    get("/v1/nodes", handler!(nodes::list, CLIENT_LIST)),
    get("/v1/node/pools", handler!(node_pools::list)).and_put(handler!(node_pools::set)),
    get("/v1/node/pool/:name/nodes", handler!(node_pools::nodes)),
    get("/v1/node/pool/:name/jobs", handler!(node_pools::jobs)),
    get("/v1/node/pool/:name", handler!(node_pools::read))
        .and_put(handler!(node_pools::set))
        .and_delete(handler!(node_pools::delete)),
    get("/v1/node/:id/allocations", handler!(nodes::allocations)),
    put("/v1/node/:id/evaluate", handler!(nodes::evaluate, CLIENT_EVALUATE)),
    put("/v1/node/:id/drain", handler!(nodes::update_drain, CLIENT_UPDATE_DRAIN)),
    put("/v1/node/:id/eligibility", handler!(nodes::set_eligibility, CLIENT_UPDATE_ELIGIBILITY)),
    put("/v1/node/:id/purge", handler!(nodes::purge, CLIENT_BATCH_DEREGISTER)),
    get("/v1/node/:id", handler!(nodes::read, CLIENT_GET_NODE)),
    // Namespaces (§19).
    get("/v1/namespaces", handler!(namespaces::list)),
    put("/v1/namespace", handler!(namespaces::set)),
    get("/v1/namespace/:name", handler!(namespaces::read))
        .and_put(handler!(namespaces::set))
        .and_delete(handler!(namespaces::delete)),
    // Variables, services, volumes, plugins (§20 to §22).
    not_built("/v1/vars", Feature::Variables),
    not_built("/v1/var/:path", Feature::Variables),
    get("/v1/services", handler!(services::list)),
    get("/v1/services/prometheus", handler!(services::prometheus)),
    any("/v1/service/:name", handler!(services::service)),
    get("/v1/volumes", handler!(volumes::list)).and_put(sync_handler!(volumes::register_csi)),
    not_built("/v1/volumes/external", Feature::CsiPlugins),
    not_built("/v1/volumes/snapshot", Feature::CsiPlugins),
    get("/v1/volumes/claims", handler!(volumes::claims)),
    any("/v1/volumes/claim/:id", handler!(volumes::claim)),
    not_built("/v1/volume/csi/:id", Feature::CsiPlugins),
    get("/v1/volume/host/:id", handler!(volumes::read))
        .and_put(handler!(volume_writes::write))
        .and_delete(handler!(volumes::delete)),
    not_built("/v1/plugins", Feature::CsiPlugins),
    not_built("/v1/plugin/csi/:id", Feature::CsiPlugins),
    // Access control (§23).
    off("/v1/acl/policies", Feature::Acls, sync_handler!(acl::list)),
    get("/v1/acl/policy/self", sync_handler!(acl::own_policy)),
    off("/v1/acl/policy/:name", Feature::Acls, sync_handler!(acl::policy)),
    off("/v1/acl/bootstrap", Feature::Acls, sync_handler!(acl::bootstrap)),
    off("/v1/acl/tokens", Feature::Acls, sync_handler!(acl::list)),
    off("/v1/acl/token", Feature::Acls, sync_handler!(acl::write)),
    get("/v1/acl/token/self", handler!(acl::own_token)),
    off("/v1/acl/token/onetime", Feature::Acls, sync_handler!(acl::write_without_body)),
    off("/v1/acl/token/onetime/exchange", Feature::Acls, sync_handler!(acl::write)),
    off("/v1/acl/token/:accessor", Feature::Acls, sync_handler!(acl::token)),
    off("/v1/acl/roles", Feature::Acls, sync_handler!(acl::list)),
    off("/v1/acl/role", Feature::Acls, sync_handler!(acl::write)),
    off("/v1/acl/role/name/:name", Feature::Acls, sync_handler!(acl::role_by_name)),
    off("/v1/acl/role/:id", Feature::Acls, sync_handler!(acl::role)),
    off("/v1/acl/auth-methods", Feature::Acls, sync_handler!(acl::list)),
    off("/v1/acl/auth-method", Feature::Acls, sync_handler!(acl::write)),
    off("/v1/acl/auth-method/:name", Feature::Acls, sync_handler!(acl::auth_method)),
    off("/v1/acl/binding-rules", Feature::Acls, sync_handler!(acl::list)),
    off("/v1/acl/binding-rule", Feature::Acls, sync_handler!(acl::write)),
    off("/v1/acl/binding-rule/:id", Feature::Acls, sync_handler!(acl::binding_rule)),
    off("/v1/acl/oidc/auth-url", Feature::Acls, sync_handler!(acl::write)),
    off("/v1/acl/oidc/complete-auth", Feature::Acls, sync_handler!(acl::write)),
    off("/v1/acl/login", Feature::Acls, sync_handler!(acl::write)),
    not_built("/v1/acl/identity/client-introduction-token", Feature::NodeIdentities),
    // Scaling, search, events (§24 to §26).
    get("/v1/scaling/policies", handler!(scaling::policies)),
    get("/v1/scaling/policy/:id", handler!(scaling::policy)),
    put("/v1/search", handler!(search::prefix)),
    put("/v1/search/fuzzy", handler!(search_fuzzy::search)),
    get("/v1/event/stream", handler!(events::follow)),
    // The agent (§27).
    get("/v1/agent/self", handler!(agent::this)),
    get("/v1/agent/members", sync_handler!(agent::members)),
    get("/v1/agent/health", sync_handler!(agent::health)),
    put("/v1/agent/join", sync_handler!(agent::join)),
    put("/v1/agent/force-leave", sync_handler!(agent::force_leave)),
    get("/v1/agent/servers", sync_handler!(agent::servers)).and_put(sync_handler!(agent::set_servers)),
    get("/v1/agent/monitor", handler!(monitor::follow)),
    get("/v1/agent/monitor/export", sync_handler!(monitor::export)),
    not_built("/v1/agent/pprof/:profile", Feature::Debugging),
    get("/v1/agent/host", handler!(stats::facts)),
    get("/v1/agent/schedulers", sync_handler!(agent::schedulers)),
    get("/v1/agent/schedulers/config", sync_handler!(agent::schedulers_config))
        .and_put(sync_handler!(agent::set_schedulers_config)),
    any("/v1/agent/keyring/:operation", sync_handler!(agent::keyring)),
    not_built("/v1/agent/reload", Feature::Reload),
    // Status, regions, system (§28).
    get("/v1/status/leader", sync_handler!(agent::leader)),
    get("/v1/status/peers", sync_handler!(agent::peers)),
    get("/v1/regions", sync_handler!(agent::regions)),
    put_only("/v1/system/gc", handler!(operator::collect_garbage)),
    put_only("/v1/system/reconcile/summaries", handler!(operator::reconcile_summaries)),
    // The cluster's processes, which is Drover's own.
    get("/v1/cluster", sync_handler!(cluster::read)),
    // Operator (§29).
    get("/v1/operator/scheduler/configuration", handler!(operator::scheduler))
        .and_put(handler!(operator::set_scheduler)),
    any("/v1/operator/raft/configuration", sync_handler!(raft::configuration)),
    any("/v1/operator/raft/peer", sync_handler!(raft::peer)),
    put("/v1/operator/raft/transfer-leadership", sync_handler!(raft::transfer_leadership)),
    any("/v1/operator/autopilot/configuration", sync_handler!(raft::autopilot)),
    any("/v1/operator/autopilot/health", sync_handler!(raft::autopilot_health)),
    get("/v1/operator/snapshot", sync_handler!(raft::snapshot)).and_put(sync_handler!(raft::snapshot)),
    get("/v1/operator/keyring/keys", handler!(keyring::list)),
    put("/v1/operator/keyring/rotate", sync_handler!(keyring::rotate)),
    delete("/v1/operator/keyring/key/:id", handler!(keyring::delete)),
    any("/v1/operator/raft/:other", sync_handler!(operator::unknown_raft)),
    any("/v1/operator/keyring/:other", sync_handler!(operator::wrong_method)),
    get("/v1/operator/upgrade-check/vault-workload-identity", handler!(operator::vault_identities)),
    get("/v1/operator/upgrade-check/:check", sync_handler!(operator::unknown_check)),
    get("/v1/operator/license", sync_handler!(operator::license))
        .and_put_only(sync_handler!(operator::enterprise_only)),
    post_only("/v1/operator/utilization", sync_handler!(operator::enterprise_only)),
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

/// The requests that have a handler: method and path. `ANY` stands for every method, and PUT for POST, too.
#[cfg(test)]
pub(crate) fn handled() -> impl Iterator<Item = String> {
    ROUTES
        .iter()
        .flat_map(|route| route.handled().into_iter().map(move |method| format!("{method} {}", route.path)))
}

/// The route that matches a path, with the values of its `:name` segments.
pub(crate) fn find(path: &str) -> Option<(&'static Route, Vec<String>)> {
    ROUTES.iter().find_map(|route| Some((route, route.params(path)?)))
}

/// The route of an escaped path in which a slash is escaped. Such a slash belongs to an id and separates nothing, so that
/// `/v1/job/a%2Fsummary` is the job `a/summary`. `None` if no slash is escaped, or an id has other slashes as well.
pub(crate) fn find_escaped(raw: &str) -> Option<(&'static Route, Vec<String>)> {
    if !raw.contains("%2F") && !raw.contains("%2f") {
        return None;
    }
    let segments = raw.split('/').map(|segment| unescape(segment, false)).collect::<Option<Vec<_>>>()?;
    ROUTES.iter().find_map(|route| Some((route, route.params_of_segments(&segments)?)))
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

#[cfg(test)]
mod tests {
    use actix_web::http::Method;

    use super::route::RouteKind;
    use super::*;

    /// The rules write a route as `**`GET|PUT /v1/path?query`**`.
    #[test]
    fn every_documented_route_is_in_the_table() {
        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules/http-api.md");
        let rules = std::fs::read_to_string(rules).unwrap();
        let path = |bold: &'static str| -> Option<&'static str> {
            let (methods, path) = bold.split_once("`**")?.0.split_once(char::is_whitespace)?;
            let is_method = |c: char| c.is_ascii_uppercase() || c == '|';
            let path = path.split(['?', ' ', '\n']).next()?;
            (methods.chars().all(is_method) && path.starts_with('/')).then_some(path)
        };
        let rules: &'static str = rules.leak();
        let documented: Vec<&str> = rules.split("**`").skip(1).filter_map(path).collect();
        assert!(documented.len() > 150, "{}", documented.len());
        let missing: Vec<_> = documented.into_iter().filter(|path| find(path).is_none()).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn unbuilt_routes_are_on_the_list() {
        for route in ROUTES {
            let (RouteKind::NotBuilt(feature) | RouteKind::Off(feature, _)) = route.kind else { continue };
            let path = route.path;
            assert!(!feature.is_built(), "{path} needs a handler: the list says that {feature:?} is built");
            if matches!(route.kind, RouteKind::Off(..)) {
                continue;
            }
            let refused = route.endpoint(&Method::GET).err().unwrap();
            assert_eq!(refused.status, 501, "{path}");
            assert!(refused.text.starts_with(&format!("GET {path} is not built yet")), "{}", refused.text);
        }
    }

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
    fn an_escaped_slash_separates_nothing() {
        let found = |path: &str| find_escaped(path).map(|(route, params)| (route.path, params.join(" ")));
        let expect = |route, params: &str| Some((route, params.to_owned()));
        assert_eq!(found("/v1/job/%2Fa%2Fb"), expect("/v1/job/:id", "/a/b"));
        assert_eq!(found("/v1/job/a%2fsummary"), expect("/v1/job/:id", "a/summary"));
        assert_eq!(found("/v1/job/a%2Fb/summary"), expect("/v1/job/:id/summary", "a/b"));
        assert_eq!(found("/v1/%6Aob/a%2F..%2Fb"), expect("/v1/job/:id", "a/../b"));
        assert_eq!(found("/v1/job/a/b%2Fc"), None, "the id has another slash, which is not escaped");
        assert_eq!(found("/v1/job/a/summary"), None);
    }

    #[test]
    fn unknown_paths_have_no_route() {
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
