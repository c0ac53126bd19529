//! Certificates: the cluster's own certificate authority, and the servers' certificates that it signs. Pure: the caller
//! provides the time.

use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;

/// Validity of an authority's certificate: longer than machines are used. It ends earlier only by replacement.
pub(super) const AUTHORITY_DAYS: u32 = 3_650;
/// Validity of a server's certificate, the maximum that common clients accept.
pub(super) const SERVER_DAYS: u32 = 825;
/// A server's certificate is due for renewal when it is valid for fewer days than this.
pub(super) const RENEW_WITHIN_DAYS: u32 = 275;
/// How far in the past validity begins, for machines whose clocks are slow.
const CLOCK_SKEW: Duration = Duration::from_hours(1);
/// Names under which a server is reached from its own machine or container. Every certificate contains them.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const DAY_SECS: i64 = 86_400;

/// The contents of a certificate that matter here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CertificateInfo {
    /// Names and addresses of the server that the certificate is for.
    pub(super) hosts: Vec<String>,
    /// End of validity, in seconds since 1970.
    pub(super) expires_secs: i64,
}

impl CertificateInfo {
    /// Whole days until the certificate expires; negative if it has expired.
    pub(super) fn days_left(&self, now_secs: i64) -> i64 {
        (self.expires_secs - now_secs).div_euclid(DAY_SECS)
    }

    /// The names among `hosts` that the certificate is not valid for.
    pub(super) fn missing<'a>(&self, hosts: &'a [String]) -> Vec<&'a str> {
        hosts.iter().map(String::as_str).filter(|host| !self.hosts.iter().any(|own| own == host)).collect()
    }
}

/// A new private key, in PEM.
pub(super) fn new_key() -> anyhow::Result<String> {
    Ok(KeyPair::generate().context("cannot create a private key")?.serialize_pem())
}

/// The self-signed certificate of an authority with this key, in PEM.
pub(super) fn authority(key: &str, now_secs: i64) -> anyhow::Result<String> {
    let mut params = valid_for(AUTHORITY_DAYS, now_secs, CertificateParams::default());
    let key = key_pair(key)?;
    // Each authority has a name of its own, so that a client that trusts two of them tries the right one.
    let id: String = params.key_identifier(&key).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Drover certificate authority {id}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).context("cannot create the authority's certificate")?;
    Ok(certificate.pem())
}

/// A certificate in PEM for a server with this key and these names, signed by the authority.
pub(super) fn server(
    authority: &str,
    authority_key: &str,
    key: &str,
    hosts: &[String],
    now_secs: i64,
) -> anyhow::Result<String> {
    let first = hosts.first().context("a server's certificate needs at least one host name")?;
    let params = CertificateParams::new(names(hosts))
        .with_context(|| format!("cannot use the host names {hosts:?}"))?;
    let mut params = valid_for(SERVER_DAYS, now_secs, params);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, first.as_str());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // NATS servers are clients of each other on the routes of a cluster.
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_ca_cert_pem(authority, key_pair(authority_key)?);
    let issuer = issuer.context("cannot use the authority's certificate")?;
    let certificate = params.signed_by(&key_pair(key)?, &issuer);
    Ok(certificate.context("cannot sign a server's certificate")?.pem())
}

/// The names in the certificate of a server: its hosts and [`OWN_NAMES`], each once.
fn names(hosts: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in hosts.iter().map(String::as_str).chain(OWN_NAMES) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Parses the first certificate of a PEM file.
pub(super) fn parse(pem: &str) -> anyhow::Result<CertificateInfo> {
    let (_, pem) = parse_x509_pem(pem.as_bytes()).map_err(|error| anyhow!("it is not PEM: {error}"))?;
    let certificate = pem.parse_x509().map_err(|error| anyhow!("it is not a certificate: {error}"))?;
    let names = certificate
        .subject_alternative_name()
        .map_err(|error| anyhow!("its alternative names are invalid: {error}"))?;
    let mut hosts = Vec::new();
    for name in names.into_iter().flat_map(|names| &names.value.general_names) {
        if let GeneralName::DNSName(name) = name {
            hosts.push((*name).to_owned());
        } else if let GeneralName::IPAddress(bytes) = name {
            hosts.extend(address(bytes));
        }
    }
    Ok(CertificateInfo { hosts, expires_secs: certificate.validity().not_after.timestamp() })
}

/// Refuses a certificate that does not match the key.
pub(super) fn check_pair(certificate: &str, key: &str) -> anyhow::Result<()> {
    let (_, pem) =
        parse_x509_pem(certificate.as_bytes()).map_err(|error| anyhow!("it is not PEM: {error}"))?;
    let certificate = pem.parse_x509().map_err(|error| anyhow!("it is not a certificate: {error}"))?;
    let is_pair = certificate.public_key().subject_public_key.data == key_pair(key)?.public_key_raw();
    ensure!(is_pair, "the certificate is for another key");
    Ok(())
}

fn key_pair(pem: &str) -> anyhow::Result<KeyPair> {
    KeyPair::from_pem(pem).context("cannot use the private key")
}

fn valid_for(days: u32, now_secs: i64, mut params: CertificateParams) -> CertificateParams {
    let now = date_time_ymd(1970, 1, 1) + Duration::from_secs(now_secs.unsigned_abs());
    params.not_before = now - CLOCK_SKEW;
    params.not_after = now + Duration::from_hours(24) * days;
    params
}

/// Parses an address from its bytes in a certificate.
fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(std::net::Ipv4Addr::from(v4).to_string());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|v6| std::net::Ipv6Addr::from(v6).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn hosts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_server_is_certified_for_its_hosts_and_time() {
        let (ca_key, key) = (new_key().unwrap(), new_key().unwrap());
        let ca = authority(&ca_key, NOW).unwrap();
        let own = hosts(&["nats", "nats.example.org", "10.1.2.3"]);
        let certificate = server(&ca, &ca_key, &key, &own, NOW).unwrap();
        let info = parse(&certificate).unwrap();
        assert_eq!(info.missing(&own), [""; 0]);
        assert_eq!(info.missing(&hosts(&["localhost", "::1", "other"])), ["other"]);
        assert_eq!(info.days_left(NOW), i64::from(SERVER_DAYS));
        assert_eq!(info.days_left(info.expires_secs + 1), -1);
        check_pair(&certificate, &key).unwrap();
        let error = check_pair(&certificate, &ca_key).unwrap_err().to_string();
        assert_eq!(error, "the certificate is for another key");
    }

    #[test]
    fn a_renewed_certificate_has_each_name_once() {
        let (ca_key, key) = (new_key().unwrap(), new_key().unwrap());
        let ca = authority(&ca_key, NOW).unwrap();
        let hosts_of =
            |hosts: &[String]| parse(&server(&ca, &ca_key, &key, hosts, NOW).unwrap()).unwrap().hosts;
        let first = hosts_of(&hosts(&["nats", "10.1.2.3", "nats"]));
        assert_eq!(first, ["nats", "10.1.2.3", "localhost", "127.0.0.1", "::1"]);
        assert_eq!(hosts_of(&first), first);
    }

    #[test]
    fn a_certificate_is_signed_by_its_authority_and_no_other() {
        let (first_key, second_key, key) = (new_key().unwrap(), new_key().unwrap(), new_key().unwrap());
        let (first, second) = (authority(&first_key, NOW).unwrap(), authority(&second_key, NOW).unwrap());
        let certificate = server(&first, &first_key, &key, &hosts(&["nats"]), NOW).unwrap();
        let is_signed_by = |authority: &str| {
            let (_, pem) = parse_x509_pem(certificate.as_bytes()).unwrap();
            let (_, authority) = parse_x509_pem(authority.as_bytes()).unwrap();
            let authority = authority.parse_x509().unwrap();
            assert!(authority.is_ca());
            pem.parse_x509().unwrap().verify_signature(Some(authority.public_key())).is_ok()
        };
        assert!(is_signed_by(&first) && !is_signed_by(&second));
    }

    #[test]
    fn unusable_certificates_keys_and_hosts_are_refused() {
        assert!(parse("nonsense").unwrap_err().to_string().contains("not PEM"));
        let (ca_key, key) = (new_key().unwrap(), new_key().unwrap());
        let ca = authority(&ca_key, NOW).unwrap();
        assert!(server(&ca, &ca_key, &key, &[], NOW).is_err());
        assert!(server(&ca, "nonsense", &key, &hosts(&["nats"]), NOW).is_err());
    }
}
