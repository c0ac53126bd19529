//! Who signs what: the operator signs accounts, the account of Drover signs users.
//!
//! Services get JWTs of their own from a signing key of the account. Nodes get theirs from a *scoped* signing key: the
//! permissions stand in the account, with a place for the node's id, so that the key can make nodes and nothing else.

use model::NodeId;
use serde_json::{Value, json};
use wire::Role;
use wire::permissions::{Permissions, Purpose, permissions};

use crate::claims::{Claims, allow};
use crate::creds::Credentials;
use crate::error::Error;
use crate::key::{Key, KeyKind, Random};
use crate::limits::{
    CONNECTIONS_MAX, NODE_PAYLOAD_MAX, NODE_SUBSCRIPTIONS_MAX, SERVICE_PAYLOAD_MAX,
    SERVICE_SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_MAX,
};
use crate::node_key::NodeKey;

/// The name of the tag with the node's id in a node's JWT.
pub const NODE_TAG: &str = "node";
/// What the server puts in its place in a node's permissions.
const NODE_TEMPLATE: &str = "{{tag(node)}}";
/// A subject that nobody uses, in the lists of what nodes may do. The server leaves out of a list what it cannot fill in, as
/// for a JWT that names no node, and takes an empty list for *everything is allowed*.
const NOBODYS_SUBJECT: &str = "nobody";
/// No limit.
const UNLIMITED: i64 = -1;
/// The version of the claims.
const VERSION: u8 = 2;

/// All keys of an operator.
#[derive(Debug, Clone)]
pub struct Issuer {
    /// Signs accounts; servers trust it.
    pub operator: Key,
    /// The account of the servers themselves.
    pub system: Key,
    /// The account of services and nodes.
    pub account: Key,
    /// Signs services.
    pub service_signer: Key,
    /// Signs nodes, with the permissions of nodes only.
    pub node_signer: Key,
    /// What credentials are for.
    pub purpose: Purpose,
}

impl Issuer {
    /// New keys.
    pub fn new(purpose: Purpose, random: Random<'_>) -> Self {
        Self {
            operator: Key::new(KeyKind::Operator, random),
            system: Key::new(KeyKind::Account, random),
            account: Key::new(KeyKind::Account, random),
            service_signer: Key::new(KeyKind::Account, random),
            node_signer: Key::new(KeyKind::Account, random),
            purpose,
        }
    }

    /// The operator's JWT.
    pub fn operator_jwt(&self, now_secs: i64) -> String {
        let nats = json!({
            "type": "operator",
            "version": VERSION,
            "system_account": self.system.public(),
        });
        Claims::new(&self.operator, &self.operator.public(), "drover", now_secs, nats).sign(&self.operator)
    }

    /// The JWT of the system account.
    pub fn system_jwt(&self, now_secs: i64) -> String {
        let limits = limits(UNLIMITED, UNLIMITED, UNLIMITED);
        let nats = json!({ "type": "account", "version": VERSION, "limits": limits });
        Claims::new(&self.operator, &self.system.public(), "SYS", now_secs, nats).sign(&self.operator)
    }

    /// The JWT of Drover's account, which names the keys that sign for it. Users in `revoked` are refused if their JWTs
    /// are not newer than the time that stands with each, in seconds since 1970.
    pub fn account_jwt(&self, revoked: &[(String, i64)], now_secs: i64) -> String {
        let mut nodes = permissions(Role::Agent, NODE_TEMPLATE, self.purpose);
        nodes.publish.insert(NOBODYS_SUBJECT.to_owned());
        nodes.subscribe.insert(NOBODYS_SUBJECT.to_owned());
        let mut template = granted(&nodes, NODE_SUBSCRIPTIONS_MAX, NODE_PAYLOAD_MAX);
        template["allowed_connection_types"] = json!(["STANDARD"]);
        let revocations: serde_json::Map<String, Value> =
            revoked.iter().map(|(user, at)| (user.clone(), json!(at))).collect();
        let nats = json!({
            "type": "account",
            "version": VERSION,
            "limits": limits(CONNECTIONS_MAX, SUBSCRIPTIONS_MAX, SERVICE_PAYLOAD_MAX),
            "signing_keys": [
                self.service_signer.public(),
                { "kind": "user_scope", "key": self.node_signer.public(), "role": "node", "template": template },
            ],
            "revocations": revocations,
        });
        Claims::new(&self.operator, &self.account.public(), "DROVER", now_secs, nats).sign(&self.operator)
    }

    /// Credentials of a service, or of another role that is not a node. They do not expire.
    ///
    /// # Errors
    /// If there are none for this role.
    pub fn service(&self, role: Role, random: Random<'_>, now_secs: i64) -> Result<Credentials, Error> {
        let advice = match (role, self.purpose) {
            (Role::Agent, _) => Some("a node has its own, which `drover operator nats node` makes"),
            (Role::SimNodes | Role::Observer, Purpose::Cluster) => {
                Some("it exists on private servers only, for tests and simulations")
            }
            (_, _) => None,
        };
        if let Some(advice) = advice {
            return Err(Error::Role { role, advice });
        }
        let granted =
            granted(&permissions(role, "", self.purpose), SERVICE_SUBSCRIPTIONS_MAX, SERVICE_PAYLOAD_MAX);
        Ok(self.user(role.as_str(), granted, random, now_secs))
    }

    /// Credentials of the system account, for looking at servers and their connections.
    pub fn system_user(&self, random: Random<'_>, now_secs: i64) -> Credentials {
        let key = Key::new(KeyKind::User, random);
        let nats = json!({
            "type": "user", "version": VERSION,
            "subs": UNLIMITED, "data": UNLIMITED, "payload": UNLIMITED,
        });
        let claims = Claims::new(&self.system, &key.public(), "system", now_secs, nats);
        Credentials::new(claims.clone().sign(&self.system), claims, key)
    }

    /// What signs for nodes, to be kept beside an agent.
    pub fn node_key(&self) -> NodeKey {
        NodeKey::new(self.account.public(), self.node_signer.clone())
    }

    /// Credentials of one node, which do not expire.
    pub fn node(&self, name: &str, node: NodeId, random: Random<'_>, now_secs: i64) -> Credentials {
        self.node_key().sign(name, node, random, now_secs, None)
    }

    fn user(&self, name: &str, mut nats: Value, random: Random<'_>, now_secs: i64) -> Credentials {
        let key = Key::new(KeyKind::User, random);
        nats["type"] = json!("user");
        nats["version"] = json!(VERSION);
        nats["issuer_account"] = json!(self.account.public());
        nats["allowed_connection_types"] = json!(["STANDARD"]);
        let claims = Claims::new(&self.service_signer, &key.public(), name, now_secs, nats);
        Credentials::new(claims.clone().sign(&self.service_signer), claims, key)
    }
}

/// Permissions and limits, as claims have them.
fn granted(permissions: &Permissions, subscriptions: i64, payload: i64) -> Value {
    json!({
        "pub": allow(&permissions.publish),
        "sub": allow(&permissions.subscribe),
        "subs": subscriptions,
        "data": UNLIMITED,
        "payload": payload,
    })
}

/// Limits of an account. Leaf nodes, imports, exports and JetStream are none of Drover's.
fn limits(connections: i64, subscriptions: i64, payload: i64) -> Value {
    json!({
        "conn": connections,
        "leaf": 0,
        "subs": subscriptions,
        "payload": payload,
        "data": UNLIMITED,
        "imports": UNLIMITED,
        "exports": UNLIMITED,
        "wildcards": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_may_do_is_never_an_empty_list() {
        let mut number = 0;
        let mut random = || {
            number += 1;
            [number; 32]
        };
        let issuer = Issuer::new(Purpose::Cluster, &mut random);
        let account = Claims::read(&issuer.account_jwt(&[], 1)).unwrap();
        let template = &account.nats["signing_keys"][1]["template"];
        for list in ["pub", "sub"] {
            let allowed = template[list]["allow"].as_array().unwrap();
            let (fixed, filled): (Vec<_>, Vec<_>) = allowed
                .iter()
                .map(|subject| subject.as_str().unwrap())
                .partition(|subject| !subject.contains("{{"));
            assert_eq!(fixed, [NOBODYS_SUBJECT], "the server cannot leave this one out");
            assert!(filled.iter().all(|subject| subject.contains(NODE_TEMPLATE)) && filled.len() > 4);
        }
    }

    #[test]
    fn nodes_and_simulations_have_no_credentials_of_services() {
        let issuer = Issuer::new(Purpose::Cluster, &mut || [1; 32]);
        for role in [Role::Agent, Role::SimNodes, Role::Observer] {
            assert!(matches!(issuer.service(role, &mut || [2; 32], 1), Err(Error::Role { .. })), "{role}");
        }
        let credentials = issuer.service(Role::Servers, &mut || [2; 32], 1).unwrap();
        assert!(!credentials.claims.nats["pub"]["allow"].as_array().unwrap().is_empty());
    }
}
