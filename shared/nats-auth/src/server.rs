//! The part of a nats-server's configuration that says whom it trusts.

use crate::identity::Issuer;

/// A nats-server's `operator`, `system_account` and `resolver`, to be included in its configuration. Users in `revoked` are
/// refused as [`Issuer::account_jwt`] says.
pub fn configuration(issuer: &Issuer, revoked: &[(String, i64)], now_secs: i64) -> String {
    let (system, account) = (issuer.system.public(), issuer.account.public());
    format!(
        "# Whom this server trusts. Made by `drover operator nats init`; nothing in it is secret.\n\
         operator: {operator}\n\
         system_account: {system}\n\
         resolver: MEMORY\n\
         resolver_preload: {{\n\
         \x20 # SYS\n\
         \x20 {system}: {system_jwt}\n\
         \x20 # DROVER\n\
         \x20 {account}: {account_jwt}\n\
         }}\n",
        operator = issuer.operator_jwt(now_secs),
        system_jwt = issuer.system_jwt(now_secs),
        account_jwt = issuer.account_jwt(revoked, now_secs),
    )
}
