//! The files with certificates and keys that the settings of a connection name. The driver reads them for each connection,
//! and does not say which of them it could not read.

use std::env;
use std::io;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use sqlx::postgres::PgSslMode;

use crate::error::Error;

/// A setting that names a file.
struct Setting {
    /// Its names in the URL of the database.
    names: &'static [&'static str],
    /// The environment variable that the driver uses if the URL does not have the setting.
    variable: &'static str,
    /// A text that the file contains.
    content: &'static str,
}

const CERTIFICATE: &str = "BEGIN CERTIFICATE";
const KEY: &str = "PRIVATE KEY";

/// The authority that the server's certificate is checked against.
const AUTHORITY: Setting = Setting {
    names: &["sslrootcert", "ssl-root-cert", "ssl-ca"],
    variable: "PGSSLROOTCERT",
    content: CERTIFICATE,
};
/// The certificate that the client shows to the server.
const CLIENT_CERTIFICATE: Setting =
    Setting { names: &["sslcert", "ssl-cert"], variable: "PGSSLCERT", content: CERTIFICATE };
/// The key of that certificate.
const CLIENT_KEY: Setting = Setting { names: &["sslkey", "ssl-key"], variable: "PGSSLKEY", content: KEY };

/// A file that connections read.
#[derive(Debug)]
pub(crate) struct CertificateFile {
    /// The setting that names it, for messages.
    setting: String,
    path: PathBuf,
    /// A text that it contains.
    content: &'static str,
}

/// The files that connections by a URL read. Without TLS they read none, and they read the authority only if they check
/// the server's certificate.
pub(crate) fn read_by(url: &str, mode: PgSslMode) -> Vec<CertificateFile> {
    let settings: &[Setting] = match mode {
        PgSslMode::Disable | PgSslMode::Allow => &[],
        PgSslMode::Prefer | PgSslMode::Require => &[CLIENT_CERTIFICATE, CLIENT_KEY],
        PgSslMode::VerifyCa | PgSslMode::VerifyFull => &[AUTHORITY, CLIENT_CERTIFICATE, CLIENT_KEY],
    };
    settings.iter().filter_map(|setting| setting.file(url)).collect()
}

/// Checks that every file can be read and has the expected content.
pub(crate) fn check(files: &[CertificateFile]) -> Result<(), Error> {
    files.iter().try_for_each(CertificateFile::check)
}

impl Setting {
    fn file(&self, url: &str) -> Option<CertificateFile> {
        // The driver uses the last value.
        let named = parameters(url).filter(|(name, _)| self.names.contains(&name.as_str())).last();
        let (setting, path) = match named {
            Some((name, path)) => (format!("{name} in the database's URL (DROVER_DATABASE_URL)"), path),
            None => (self.variable.to_owned(), env::var(self.variable).ok().filter(|value| !is_pem(value))?),
        };
        Some(CertificateFile { setting, path: path.into(), content: self.content })
    }
}

/// Whether the value of an environment variable is the content of a file instead of its path.
fn is_pem(value: &str) -> bool {
    value.trim().starts_with("-----BEGIN")
}

/// The parameters after the `?` of a URL, with their values.
fn parameters(url: &str) -> impl Iterator<Item = (String, String)> {
    let url = url.split('#').next().unwrap_or_default();
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    query.split('&').filter_map(move |pair| {
        let (name, value) = pair.split_once('=')?;
        Some((decoded(name), decoded(value)))
    })
}

impl CertificateFile {
    fn check(&self) -> Result<(), Error> {
        let failed = |source| Error::CertificateFile {
            setting: self.setting.clone(),
            path: self.path.clone(),
            source,
        };
        let bytes = std::fs::read(&self.path).map_err(failed)?;
        if String::from_utf8_lossy(&bytes).contains(self.content) {
            return Ok(());
        }
        let expected = format!("expected PEM text with {}", self.content);
        Err(failed(io::Error::new(io::ErrorKind::InvalidData, expected)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(url: &str, mode: PgSslMode) -> Option<String> {
        let error = check(&read_by(url, mode)).err()?;
        let source = std::error::Error::source(&error).expect("the error has a cause");
        Some(format!("{error}: {source}"))
    }

    #[test]
    fn a_file_that_is_missing_is_named_with_its_setting() {
        let url = "postgres://drover@db/drover?sslmode=verify-full&sslrootcert=/no%20where/ca.pem";
        let text = error(url, PgSslMode::VerifyFull).expect("the file does not exist");
        assert!(
            text.starts_with(
                "cannot use the file /no where/ca.pem, which sslrootcert in the database's URL (DROVER_DATABASE_URL) \
                 names: No such file or directory"
            ),
            "{text}"
        );
        assert_eq!(error(url, PgSslMode::Require), None, "the driver does not read it");
        assert_eq!(error("postgres://drover@db/drover", PgSslMode::VerifyFull), None);
        let url = "postgres://db/drover?ssl-cert=/nowhere/client.pem#sslkey=/nowhere/client.key";
        let text = error(url, PgSslMode::Prefer).expect("the file does not exist");
        assert!(text.contains("/nowhere/client.pem") && text.contains("ssl-cert in"), "{text}");
        assert_eq!(error(url, PgSslMode::Disable), None);
    }

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        let file = std::env::temp_dir().join(format!("drover-authority-{}", std::process::id()));
        let url = format!("postgres://db/drover?sslrootcert={}", file.display());
        std::fs::write(&file, "nothing").unwrap();
        let text = error(&url, PgSslMode::VerifyCa).expect("the file has no certificate");
        assert!(text.ends_with("names: expected PEM text with BEGIN CERTIFICATE"), "{text}");
        std::fs::write(&file, "-----BEGIN CERTIFICATE-----\n").unwrap();
        assert_eq!(error(&url, PgSslMode::VerifyCa), None);
        std::fs::remove_file(&file).unwrap();
    }
}
