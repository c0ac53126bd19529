//! Settings of the Consul agent with which services are registered.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Parser as _;

/// Where Consul's agent listens, unless a setting says otherwise.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8500";
/// The default timeout of a request, in milliseconds.
const TIMEOUT_MS: u32 = 5_000;
/// The variable from which the token is taken if no setting has it, as Consul's own tools do.
const TOKEN_VARIABLE: &str = "CONSUL_HTTP_TOKEN";

/// Settings of Consul.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Agent")]
pub struct ConsulArgs {
    /// Address of the machine's Consul agent, with which services of the provider consul are registered; an empty text is
    /// none.
    #[arg(long, env = "DROVER_CONSUL_ADDRESS", default_value = DEFAULT_ADDRESS)]
    pub consul_address: String,
    /// Token for Consul; by default that of the variable CONSUL_HTTP_TOKEN.
    #[arg(long, env = "DROVER_CONSUL_TOKEN", hide_env_values = true, default_value = "")]
    pub consul_token: Token,
    /// User and password for Consul, as `user:password`, if it is behind a proxy that asks for them.
    #[arg(long, env = "DROVER_CONSUL_AUTH", hide_env_values = true, default_value = "")]
    pub consul_auth: Token,
    /// Connect to Consul by TLS.
    #[arg(long, env = "DROVER_CONSUL_SSL")]
    pub consul_ssl: bool,
    /// Do not verify Consul's certificate.
    #[arg(long, env = "DROVER_CONSUL_SKIP_VERIFY")]
    pub consul_skip_verify: bool,
    /// File with the certificate of the authority that has signed Consul's; those of the system by default.
    #[arg(long, env = "DROVER_CONSUL_CA_FILE", value_name = "FILE")]
    pub consul_ca_file: Option<PathBuf>,
    /// File with the certificate that the agent shows to Consul.
    #[arg(long, env = "DROVER_CONSUL_CERT_FILE", value_name = "FILE", requires = "consul_key_file")]
    pub consul_cert_file: Option<PathBuf>,
    /// File with the private key of that certificate.
    #[arg(long, env = "DROVER_CONSUL_KEY_FILE", value_name = "FILE")]
    pub consul_key_file: Option<PathBuf>,
    /// How long a request to Consul may take, in milliseconds.
    #[arg(long, env = "DROVER_CONSUL_TIMEOUT_MS", default_value_t = TIMEOUT_MS, value_name = "MS")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub consul_timeout_ms: u32,
}

/// A token, which is not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<none>" } else { "<secret>" })
    }
}

impl FromStr for Token {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl Default for ConsulArgs {
    /// The settings without any flags. Environment variables apply.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct NoFlags {
            #[command(flatten)]
            args: ConsulArgs,
        }
        NoFlags::parse_from(["agent"]).args
    }
}

/// The settings of a connection to Consul.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsulSettings {
    /// The beginning of all URLs, without a slash at its end.
    pub(crate) url: String,
    /// The socket, if the address is one.
    pub(crate) socket: Option<PathBuf>,
    /// The token; empty is none.
    pub(crate) token: Token,
    /// User and password; empty is none.
    pub(crate) auth: Token,
    /// Whether Consul's certificate is not verified.
    pub(crate) skip_verify: bool,
    /// The certificate authority.
    pub(crate) ca_file: Option<PathBuf>,
    /// The agent's certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    /// How long a request may take.
    pub(crate) timeout: Duration,
}

impl ConsulSettings {
    /// Validates the settings. `None` is without Consul.
    pub(crate) fn new(args: ConsulArgs) -> anyhow::Result<Option<Self>> {
        let address = args.consul_address.trim().trim_end_matches('/').to_owned();
        if address.is_empty() {
            return Ok(None);
        }
        let socket = address.strip_prefix("unix://").map(PathBuf::from);
        let url = match (&socket, address.contains("://")) {
            // The name is only for the header.
            (Some(_), _) => "http://consul".to_owned(),
            (None, true) => address,
            (None, false) if args.consul_ssl => format!("https://{address}"),
            (None, false) => format!("http://{address}"),
        };
        let is_http = url.starts_with("http://") || url.starts_with("https://");
        anyhow::ensure!(is_http, "consul address: {url} is neither http://, https:// nor unix://");
        anyhow::ensure!(args.consul_timeout_ms > 0, "consul timeout must be greater than 0");
        let identity = match (args.consul_cert_file, args.consul_key_file) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => anyhow::bail!("consul: a certificate and its key are needed together"),
        };
        let token = Some(args.consul_token).filter(|token| !token.0.is_empty());
        let token = token.or_else(|| std::env::var(TOKEN_VARIABLE).ok().map(Token)).unwrap_or_default();
        Ok(Some(Self {
            url,
            socket,
            token,
            auth: args.consul_auth,
            skip_verify: args.consul_skip_verify,
            ca_file: args.consul_ca_file,
            identity,
            timeout: Duration::from_millis(args.consul_timeout_ms.into()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url_of(address: &str, ssl: bool) -> Option<String> {
        let args = ConsulArgs { consul_address: address.into(), consul_ssl: ssl, ..ConsulArgs::default() };
        ConsulSettings::new(args).unwrap().map(|settings| settings.url)
    }

    #[test]
    fn addresses_have_a_scheme_or_get_one() {
        assert_eq!(url_of("127.0.0.1:8500", false).as_deref(), Some("http://127.0.0.1:8500"));
        assert_eq!(url_of("127.0.0.1:8501", true).as_deref(), Some("https://127.0.0.1:8501"));
        assert_eq!(
            url_of("https://consul.example:8501/", false).as_deref(),
            Some("https://consul.example:8501")
        );
        assert_eq!(url_of("unix:///run/consul.sock", false).as_deref(), Some("http://consul"));
        assert_eq!(url_of("", false), None);
        let args = ConsulArgs { consul_address: "ftp://x".into(), ..ConsulArgs::default() };
        assert!(ConsulSettings::new(args).is_err());
    }

    #[test]
    fn tokens_are_not_shown() {
        assert_eq!(format!("{:?} {:?}", Token("s3cret".into()), Token::default()), "<secret> <none>");
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let args = ConsulArgs { consul_cert_file: Some("c".into()), ..ConsulArgs::default() };
        let error = ConsulSettings::new(args).unwrap_err().to_string();
        assert_eq!(error, "consul: a certificate and its key are needed together");
    }
}
