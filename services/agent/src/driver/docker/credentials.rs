//! Credentials for registries (A-22.7): the task's own, those in a file of Docker's command line, and those that a helper
//! program knows, in this order.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use super::config::{AuthConfig, ImageConfig};
use super::reference::ImageName;
use super::settings::Settings;

/// How long a helper program may take.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
/// The user name by which a helper says that the secret is a token.
const TOKEN_USER: &str = "<token>";
/// What a helper prints if it knows no credentials.
const HELPER_NOT_FOUND: &str = "credentials not found";
/// The registry without a name, and the names under which its credentials are kept.
const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_SERVERS: [&str; 3] = ["https://index.docker.io/v1/", "index.docker.io", "docker.io"];

/// Credentials as the engine takes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Auth {
    #[serde(skip_serializing_if = "String::is_empty")]
    username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    password: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    email: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    serveraddress: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    identitytoken: String,
}

impl Auth {
    /// The credentials as a header.
    fn header(&self) -> Result<String, String> {
        let json = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        Ok(URL_SAFE.encode(json))
    }
}

/// The credentials to pull an image with, as a header; `None` if there are none.
///
/// # Errors
/// If a source of credentials cannot be read.
pub(super) async fn header(
    settings: &Settings,
    config: &ImageConfig,
    image: &ImageName,
) -> Result<Option<String>, String> {
    let registry = image.registry();
    let found = match of_task(config.auth.as_ref()) {
        Some(auth) => Some(auth),
        None => match of_file(&settings.auth_config, registry).await? {
            Some(auth) => Some(auth),
            None if settings.auth_helper.is_empty() => None,
            None => of_helper(&settings.auth_helper, registry).await?,
        },
    };
    found.map(|auth| auth.header()).transpose()
}

fn of_task(auth: Option<&AuthConfig>) -> Option<Auth> {
    let auth = auth.filter(|auth| !auth.username.is_empty() || !auth.password.is_empty())?;
    Some(Auth {
        username: auth.username.clone(),
        password: auth.password.clone(),
        email: auth.email.clone(),
        serveraddress: auth.server_address.clone(),
        identitytoken: String::new(),
    })
}

async fn of_file(path: &str, registry: &str) -> Result<Option<Auth>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    let text = tokio::fs::read_to_string(Path::new(path)).await;
    let text = text.map_err(|error| format!("cannot read {path}: {error}"))?;
    match in_file(&text, registry).map_err(|error| format!("{path}: {error}"))? {
        Some(Entry::Auth(auth)) => Ok(Some(auth)),
        Some(Entry::Helper(name)) => of_helper(&name, registry).await,
        None => Ok(None),
    }
}

/// What a file says about a registry.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Auth(Auth),
    Helper(String),
}

/// A file of Docker's command line.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AuthFile {
    auths: BTreeMap<String, FileAuth>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FileAuth {
    auth: String,
    username: String,
    password: String,
    email: String,
    identitytoken: String,
}

/// The names under which credentials of a registry may be kept.
fn servers(registry: &str) -> Vec<String> {
    if registry == DEFAULT_REGISTRY {
        return DEFAULT_SERVERS.map(str::to_owned).to_vec();
    }
    vec![
        registry.to_owned(),
        format!("https://{registry}"),
        format!("https://{registry}/v2/"),
        format!("https://{registry}/v1/"),
    ]
}

fn in_file(text: &str, registry: &str) -> Result<Option<Entry>, String> {
    let file: AuthFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let servers = servers(registry);
    if let Some(helper) = servers.iter().find_map(|server| file.cred_helpers.get(server)) {
        return Ok(Some(Entry::Helper(helper.clone())));
    }
    let found = servers.iter().find_map(|server| Some((server, file.auths.get(server)?)));
    let Some((server, found)) = found else {
        return Ok((!file.creds_store.is_empty()).then_some(Entry::Helper(file.creds_store)));
    };
    let mut auth = Auth {
        username: found.username.clone(),
        password: found.password.clone(),
        email: found.email.clone(),
        serveraddress: server.clone(),
        identitytoken: found.identitytoken.clone(),
    };
    if !found.auth.is_empty() {
        let invalid = || format!("the credentials of {server} are not base64 of user:password");
        let decoded = STANDARD.decode(&found.auth).map_err(|_| invalid())?;
        let decoded = String::from_utf8(decoded).map_err(|_| invalid())?;
        let (user, password) = decoded.split_once(':').ok_or_else(invalid)?;
        (auth.username, auth.password) = (user.to_owned(), password.trim_end_matches('\0').to_owned());
    }
    if auth.username.is_empty() && auth.identitytoken.is_empty() && !file.creds_store.is_empty() {
        // The entry only says that there are credentials in the store.
        return Ok(Some(Entry::Helper(file.creds_store)));
    }
    Ok(Some(Entry::Auth(auth)))
}

/// What a helper prints.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAuth {
    username: String,
    secret: String,
}

async fn of_helper(name: &str, registry: &str) -> Result<Option<Auth>, String> {
    let program = format!("docker-credential-{name}");
    let servers = servers(registry);
    let server = servers.first().map_or(registry, String::as_str);
    let asked = ask(&program, server);
    let late = |_| format!("{program} did not answer within {} s", HELPER_TIMEOUT.as_secs());
    let output = timeout(HELPER_TIMEOUT, asked).await.map_err(late)?;
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        if printed.contains(HELPER_NOT_FOUND) {
            return Ok(None);
        }
        return Err(format!("{program} failed: {}", printed.trim()));
    }
    let found: HelperAuth = serde_json::from_str(&printed)
        .map_err(|_| format!("{program} printed something else than credentials"))?;
    let mut auth = Auth { serveraddress: server.to_owned(), ..Auth::default() };
    if found.username == TOKEN_USER {
        auth.identitytoken = found.secret;
    } else {
        (auth.username, auth.password) = (found.username, found.secret);
    }
    Ok(Some(auth))
}

async fn ask(program: &str, server: &str) -> std::io::Result<std::process::Output> {
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // Fails if the helper ends without reading it. Its output says why.
        let _ = stdin.write_all(server.as_bytes()).await;
    }
    child.wait_with_output().await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn decoded(header: &str) -> Value {
        serde_json::from_slice(&URL_SAFE.decode(header).unwrap()).unwrap()
    }

    #[test]
    fn files_of_the_command_line_are_understood() {
        let file = json!({
            "auths": {
                "https://index.docker.io/v1/": { "auth": STANDARD.encode("me:se:cret") },
                "r.example": { "username": "u", "password": "p" },
                "https://t.example": { "identitytoken": "t" },
                "bad.example": { "auth": "?" },
            },
            "credHelpers": { "h.example": "ecr-login" },
        })
        .to_string();
        let auth = |registry: &str| match in_file(&file, registry).unwrap() {
            Some(Entry::Auth(auth)) => auth,
            other => panic!("{registry}: {other:?}"),
        };
        let hub = auth("docker.io");
        assert_eq!((hub.username.as_str(), hub.password.as_str()), ("me", "se:cret"));
        assert_eq!(auth("r.example").username, "u");
        assert_eq!(auth("t.example").identitytoken, "t");
        assert_eq!(in_file(&file, "h.example").unwrap(), Some(Entry::Helper("ecr-login".to_owned())));
        assert_eq!(in_file(&file, "other.example").unwrap(), None);
        in_file(&file, "bad.example").unwrap_err();
        in_file("{", "r.example").unwrap_err();
        let store = r#"{ "auths": { "r.example": {} }, "credsStore": "pass" }"#;
        for registry in ["r.example", "other.example"] {
            assert_eq!(
                in_file(store, registry).unwrap(),
                Some(Entry::Helper("pass".to_owned())),
                "{registry}"
            );
        }
    }

    #[tokio::test]
    async fn the_credentials_of_the_task_come_first() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        std::fs::write(&file, r#"{ "auths": { "r.example": { "username": "file", "password": "p" } } }"#)
            .unwrap();
        let settings = Settings { auth_config: file.display().to_string(), ..Settings::default() };
        let image = ImageName::read("r.example/a:1");
        let mut config = ImageConfig { name: "r.example/a:1".into(), ..ImageConfig::default() };
        let found = header(&settings, &config, &image).await.unwrap().unwrap();
        assert_eq!(decoded(&found)["username"], "file");
        config.auth =
            Some(AuthConfig { username: "task".into(), password: "q".into(), ..AuthConfig::default() });
        let found = header(&settings, &config, &image).await.unwrap().unwrap();
        assert_eq!(decoded(&found), json!({ "username": "task", "password": "q" }));
        assert_eq!(header(&Settings::default(), &ImageConfig::default(), &image).await.unwrap(), None);
        let absent = Settings { auth_config: "/nonexistent".into(), ..Settings::default() };
        header(&absent, &ImageConfig::default(), &image).await.unwrap_err();
    }
}
