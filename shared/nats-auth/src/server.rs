//! The part of a nats-server's configuration with the operator and the accounts that it trusts.

use crate::identity::Issuer;

/// The settings `operator`, `system_account` and `resolver`, for inclusion in a nats-server's configuration. Users in
/// `revoked` are refused as described at [`Issuer::account_jwt`].
pub fn configuration(issuer: &Issuer, revoked: &[(String, i64)], now_secs: i64) -> String {
    let (system, account) = (issuer.system.public(), issuer.account.public());
    format!(
        "# The operator and the accounts that this server trusts. Created by `drover operator nats init`; contains no secrets.\n\
         operator: {operator}\n\
         system_account: {system}\n\
         resolver: MEMORY\n\
         resolver_preload: {{\n\
         \x20 # SYS\n\
         \x20 {system}: {system_jwt}\n\
         \x20 # DROVER\n\
         \x20 {account}: {account_jwt}\n\
         }}\n",
        operator = issuer.operator_jwt(),
        system_jwt = issuer.system_jwt(now_secs),
        account_jwt = issuer.account_jwt(revoked, now_secs),
    )
}
