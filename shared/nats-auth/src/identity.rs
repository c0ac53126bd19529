//! The issuer of identities: the operator signs accounts, and Drover's account signs users.
//!
//! Services get JWTs that are signed with a signing key of the account. Nodes get JWTs from a *scoped* signing key. Its
//! permissions are defined in the account, with a placeholder for the node's id, so that the key can sign only for
//! nodes.

use model::NodeId;
use serde_json::{Value, json};
use wire::Role;
use wire::permissions::{Permissions, Purpose, permissions};

use crate::claims::{Claims, allow};
use crate::creds::Credentials;
use crate::error::Error;
use crate::key::{Key, Random};
use crate::key_kind::KeyKind;
use crate::limits::{
    CONNECTIONS_MAX, NODE_PAYLOAD_MAX, NODE_SUBSCRIPTIONS_MAX, SERVICE_PAYLOAD_MAX,
    SERVICE_SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_MAX,
};
use crate::node_key::NodeKey;

/// The placeholder for the node's id in a node's permissions. The server replaces it.
const NODE_TEMPLATE: &str = "{{tag(node)}}";
/// An unused subject in the lists of a node's permissions. If the server cannot fill in a placeholder, because the JWT
/// names no node, it removes the subject from the list. It would treat an empty list as *everything is allowed*.
const UNUSED_SUBJECT: &str = "nobody";
/// No limit.
const UNLIMITED: i64 = -1;
/// Version of the claims.
const VERSION: u8 = 2;
/// Time of issue of every operator JWT, in seconds since 1970: 2026-01-01.
const OPERATOR_ISSUED_SECS: i64 = 1_767_225_600;

/// All keys of an operator.
#[derive(Debug, Clone)]
pub struct Issuer {
    /// Signs accounts. Servers trust it.
    pub operator: Key,
    /// The system account, for administration of the servers.
    pub system: Key,
    /// The account of all services and nodes.
    pub account: Key,
    /// Signs credentials of services.
    pub service_signer: Key,
    /// Signs credentials of nodes, with the permissions of nodes only.
    pub node_signer: Key,
    /// The purpose of the credentials.
    pub purpose: Purpose,
}

impl Issuer {
    /// Creates new keys.
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

    /// The operator's JWT. It depends on the keys only: nats-server refuses to reload a configuration whose operator differs.
    pub fn operator_jwt(&self) -> String {
        let nats = json!({
            "type": "operator",
            "version": VERSION,
            "system_account": self.system.public(),
        });
        Claims::new(&self.operator, &self.operator.public(), "drover", OPERATOR_ISSUED_SECS, nats)
            .sign(&self.operator)
    }

    /// The JWT of the system account.
    pub fn system_jwt(&self, now_secs: i64) -> String {
        let limits = limits(UNLIMITED, UNLIMITED, UNLIMITED);
        let nats = json!({ "type": "account", "version": VERSION, "limits": limits });
        Claims::new(&self.operator, &self.system.public(), "SYS", now_secs, nats).sign(&self.operator)
    }

    /// The JWT of Drover's account, which names its signing keys. Users in `revoked` are refused if their JWTs are not
    /// newer than the given time, in seconds since 1970.
    pub fn account_jwt(&self, revoked: &[(String, i64)], now_secs: i64) -> String {
        let mut nodes = permissions(Role::Agent, NODE_TEMPLATE, self.purpose);
        nodes.publish.insert(UNUSED_SUBJECT.to_owned());
        nodes.subscribe.insert(UNUSED_SUBJECT.to_owned());
        let mut template = grant(&nodes, NODE_SUBSCRIPTIONS_MAX, NODE_PAYLOAD_MAX);
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

    /// Signs credentials of a service, or of another role that is not a node. They do not expire.
    ///
    /// # Errors
    /// If there are no credentials for this role.
    pub fn service(&self, role: Role, random: Random<'_>, now_secs: i64) -> Result<Credentials, Error> {
        let advice = match (role, self.purpose) {
            (Role::Agent, _) => {
                Some("each node has its own credentials, which `drover operator nats node` creates")
            }
            (Role::SimNodes | Role::Observer, Purpose::Cluster) => {
                Some("it exists on private servers only, for tests and simulations")
            }
            (_, _) => None,
        };
        if let Some(advice) = advice {
            return Err(Error::Role { role, advice });
        }
        let grant =
            grant(&permissions(role, "", self.purpose), SERVICE_SUBSCRIPTIONS_MAX, SERVICE_PAYLOAD_MAX);
        Ok(self.user(role.as_str(), grant, random, now_secs))
    }

    /// Signs credentials of the system account, for inspecting servers and their connections.
    pub fn system_user(&self, random: Random<'_>, now_secs: i64) -> Credentials {
        let key = Key::new(KeyKind::User, random);
        let nats = json!({
            "type": "user", "version": VERSION,
            "subs": UNLIMITED, "data": UNLIMITED, "payload": UNLIMITED,
        });
        let claims = Claims::new(&self.system, &key.public(), "system", now_secs, nats);
        Credentials::new(claims.clone().sign(&self.system), claims, key)
    }

    /// The key that signs for nodes, for installation beside an agent.
    pub fn node_key(&self) -> NodeKey {
        NodeKey::new(self.account.public(), self.node_signer.clone())
    }

    /// Signs credentials of one node. They do not expire.
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

/// Permissions and limits, in the form of claims.
fn grant(permissions: &Permissions, subscriptions: i64, payload: i64) -> Value {
    json!({
        "pub": allow(&permissions.publish),
        "sub": allow(&permissions.subscribe),
        "subs": subscriptions,
        "data": UNLIMITED,
        "payload": payload,
    })
}

/// Limits of an account. Drover uses no leaf nodes, imports, exports or JetStream.
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
    fn the_permissions_of_a_node_are_never_an_empty_list() {
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
            assert_eq!(fixed, [UNUSED_SUBJECT], "the server keeps this subject");
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
