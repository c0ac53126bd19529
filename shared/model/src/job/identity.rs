//! Who a task is to others: its workload identities, and its access to Vault, which it gets by one of them.

use super::ChangeMode;
use crate::mirror::{boxed_members, encoded_as_api, mirror};
use crate::{Nanos, Text};

boxed_members!(WorkloadIdentity, Vault);
encoded_as_api!(WorkloadIdentity, Vault);

/// A signed token that identifies a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkloadIdentity {
    /// Its name, unique in the task.
    pub name: Text,
    /// Audience of the token.
    pub audience: Vec<Text>,
    /// What happens when the token is renewed; `None` is nothing.
    pub change_mode: Option<ChangeMode>,
    /// The signal, if a renewal sends one.
    pub change_signal: Text,
    /// Whether the task gets it in its environment.
    pub env: bool,
    /// Whether the task gets it as a file in its secrets directory.
    pub file: bool,
    /// Path of that file in place of the default.
    pub filepath: Text,
    /// The service that it identifies.
    pub service_name: Text,
    /// Time for which it is valid; 0 is as long as the allocation exists.
    pub ttl: Nanos,
    /// Further claims by name.
    pub extra_claims: Vec<Text>,
}

mirror! {
    WorkloadIdentity = WorkloadIdentity {
        name: "Name",
        audience: "Audience",
        change_mode: "ChangeMode",
        change_signal: "ChangeSignal",
        env: "Env",
        file: "File",
        filepath: "Filepath",
        service_name: "ServiceName",
        ttl: "TTL",
        extra_claims: "ExtraClaims",
    }
}

/// Access to Vault by the workload's identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vault {
    /// Role in Vault; empty is the cluster's default.
    pub role: Text,
    /// Namespace in Vault.
    pub namespace: Text,
    /// Name of the Vault cluster in the node's configuration.
    pub cluster: Text,
    /// Whether `VAULT_TOKEN` is set.
    pub env: bool,
    /// Whether the token is not written to the secrets directory.
    pub disable_file: bool,
    /// What happens when the token changes.
    pub change_mode: Option<ChangeMode>,
    /// The signal, if a change sends one.
    pub change_signal: Text,
    /// Whether the token is not renewed.
    pub allow_token_expiration: bool,
}

mirror! {
    Vault = Vault {
        role: "Role",
        namespace: "Namespace",
        cluster: "Cluster",
        env: "Env",
        disable_file: "DisableFile",
        change_mode: "ChangeMode",
        change_signal: "ChangeSignal",
        allow_token_expiration: "AllowTokenExpiration",
    }
    // In requests of older clients, without effect.
    ignored { policies = None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::Mirror as _;

    /// Every stored job has an identity in this form.
    #[test]
    fn an_identity_is_encoded_as_in_the_api() {
        let stored = api_types::WorkloadIdentity {
            name: Some("default".to_owned()),
            audience: Some(vec!["nomadproject.io".to_owned()]),
            change_mode: Some(String::new()),
            change_signal: Some(String::new()),
            env: Some(false),
            file: Some(false),
            filepath: Some(String::new()),
            service_name: Some(String::new()),
            ttl: Some(0),
            extra_claims: None,
        };
        let encoded = rmp_serde::to_vec_named(&stored).unwrap();
        let read: WorkloadIdentity = rmp_serde::from_slice(&encoded).unwrap();
        assert_eq!((&*read.name, read.change_mode, read.env), ("default", None, false));
        assert_eq!(read.to_api(), stored);
        assert_eq!(rmp_serde::to_vec_named(&read).unwrap(), encoded);
    }

    #[test]
    fn access_to_vault_reads_as_it_was_registered() {
        let vault = Vault { env: true, change_mode: Some(ChangeMode::Noop), ..Vault::default() };
        assert_eq!(Vault::from_api(vault.to_api()).unwrap(), vault);
        let api = api_types::Vault { change_mode: Some("whatever".to_owned()), ..vault.to_api() };
        assert!(Vault::from_api(api).unwrap_err().to_string().starts_with("ChangeMode: "));
    }
}
