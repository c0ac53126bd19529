//! Settings of the connection to NATS: addresses and credentials.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use async_nats::{ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;

/// Settings of the connection to NATS.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "nats")]
#[command(next_help_heading = "NATS")]
pub struct Args {
    /// Addresses of the NATS servers, separated by commas. One reachable server is enough.
    #[arg(
        long = "nats-url",
        env = "DROVER_NATS_URL",
        value_name = "URL",
        value_delimiter = ',',
        default_value = "nats://127.0.0.1:4222",
        hide_env_values = true
    )]
    pub servers: Vec<Address>,
    /// File with credentials for NATS (a user's JWT and seed, as written by `drover operator nats` and `nsc`). It is
    /// read again for each new connection.
    #[arg(long = "nats-credentials", env = "DROVER_NATS_CREDENTIALS", value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// File with the certificate of the authority that signed the NATS servers' certificates (PEM). Makes TLS
    /// mandatory. Without it, `tls://` addresses are checked against the system's authorities.
    #[arg(long = "nats-ca", env = "DROVER_NATS_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// For agents: file with the key that signs credentials of nodes (`node.key`). The agent signs its own credentials
    /// for each new connection, and needs no credentials file.
    #[arg(long = "nats-node-key", env = "DROVER_NATS_NODE_KEY", value_name = "FILE")]
    pub node_key: Option<PathBuf>,
}

impl Args {
    /// Settings with these addresses, and no credentials or certificates.
    pub fn new(servers: Vec<Address>) -> Self {
        Self { servers, credentials: None, ca: None, node_key: None }
    }
}

/// The address of a NATS server, with the login before its `@`: user and password, or a token. Its text form shows host
/// and port only.
#[derive(Clone)]
pub struct Address {
    server: ServerAddr,
    login: Option<Login>,
}

#[derive(Clone, PartialEq, Eq)]
enum Login {
    Password { user: String, password: String },
    Token(String),
}

impl Address {
    /// Sets the login of `options` to that of the first address that has one. The client has one login for all servers.
    pub(crate) fn log_in(addresses: &[Self], options: ConnectOptions) -> ConnectOptions {
        match addresses.iter().find_map(|address| address.login.clone()) {
            None => options,
            Some(Login::Password { user, password }) => options.user_and_password(user, password),
            Some(Login::Token(token)) => options.token(token),
        }
    }

    /// The address without the login.
    pub(crate) fn server(&self) -> ServerAddr {
        self.server.clone()
    }
}

impl FromStr for Address {
    type Err = std::io::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut url = text.trim().parse::<ServerAddr>()?.into_inner();
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let login = match (url.username(), url.password()) {
            ("", _) => None,
            (token, None) => Some(Login::Token(decoded(token))),
            (user, Some(password)) => {
                Some(Login::Password { user: decoded(user), password: decoded(password) })
            }
        };
        // The client must not be able to log the login. These calls fail only for URLs without a host, which have no
        // login.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Ok(Self { server: ServerAddr::from_url(url)?, login })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.server.host(), self.server.port())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn servers(flags: &[&str]) -> String {
        let flags = ["drover"].iter().chain(flags);
        format!("{:?}", Cli::try_parse_from(flags).unwrap().args.servers)
    }

    #[test]
    fn servers_are_a_list_that_keeps_passwords_to_itself() {
        assert_eq!(servers(&[]), "[127.0.0.1:4222]");
        assert_eq!(servers(&["--nats-url", "nats://user:secret@one:1, two"]), "[one:1, two:4222]");
    }

    #[test]
    fn the_login_is_before_the_host() {
        let login = |text: &str| text.parse::<Address>().unwrap().login;
        let password =
            |user: &str, password: &str| Login::Password { user: user.into(), password: password.into() };
        assert!(login("one").is_none());
        assert!(login("nats://user:se%3Acret@one:1") == Some(password("user", "se:cret")));
        assert!(login("nats://secret@one") == Some(Login::Token("secret".into())));
        let server = "nats://user:secret@one:1".parse::<Address>().unwrap().server();
        assert_eq!(server.as_url_str(), "nats://one:1");
    }

    #[test]
    fn an_invalid_address_is_refused() {
        let error = Cli::try_parse_from(["drover", "--nats-url", "http://one"]).map(|cli| cli.args);
        assert!(error.unwrap_err().to_string().contains("--nats-url"));
    }
}
