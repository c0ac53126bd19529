//! Certificates: an authority of the cluster's own, and what it signs for the servers. Pure: the time comes from the caller.

use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;

/// How long an authority lives: longer than machines do. Nothing but its replacement ends it earlier.
pub(super) const AUTHORITY_DAYS: u32 = 3_650;
/// How long a server's certificate lives, the most that common clients take.
pub(super) const SERVER_DAYS: u32 = 825;
/// A server's certificate is due for renewal when it lives for less than that.
pub(super) const RENEW_WITHIN_DAYS: u32 = 275;
/// How far back validity begins, for machines whose clocks are behind.
const CLOCK_SKEW: Duration = Duration::from_hours(1);
/// Names under which a server is reached from its own machine or container, in each certificate.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const DAY_SECS: i64 = 86_400;

/// What a certificate says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Names and addresses of the server that it is for.
    pub(super) hosts: Vec<String>,
    /// When it ends, in seconds since 1970.
    pub(super) ends_secs: i64,
}

impl Facts {
    /// How many whole days it still lives; fewer than none if it has ended.
    pub(super) fn days_left(&self, now_secs: i64) -> i64 {
        (self.ends_secs - now_secs).div_euclid(DAY_SECS)
    }

    /// Those of `hosts` that it is not for.
    pub(super) fn missing<'a>(&self, hosts: &'a [String]) -> Vec<&'a str> {
        hosts.iter().map(String::as_str).filter(|host| !self.hosts.iter().any(|own| own == host)).collect()
    }
}

/// A new private key, in PEM.
pub(super) fn new_key() -> anyhow::Result<String> {
    Ok(KeyPair::generate().context("cannot make a private key")?.serialize_pem())
}

/// The certificate of an authority with that key, in PEM.
pub(super) fn authority(key: &str, now_secs: i64) -> anyhow::Result<String> {
    let mut params = valid_for(AUTHORITY_DAYS, now_secs, CertificateParams::default());
    let key = key_pair(key)?;
    // By a name of its own, one authority is told from another: a client that trusts both tries the right one.
    let id: String = params.key_identifier(&key).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Drover certificate authority {id}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).context("cannot make an authority")?;
    Ok(certificate.pem())
}

/// A certificate in PEM for a server that has that key and is reached as `hosts`, signed by the authority.
pub(super) fn server(
    authority: &str,
    authority_key: &str,
    key: &str,
    hosts: &[String],
    now_secs: i64,
) -> anyhow::Result<String> {
    let first = hosts.first().context("a server's certificate is for one host at least")?;
    let mut names = hosts.to_vec();
    names.extend(OWN_NAMES.map(str::to_owned));
    names.dedup();
    let params =
        CertificateParams::new(names).with_context(|| format!("cannot use the host names {hosts:?}"))?;
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

/// What the first certificate of a PEM file says of itself.
pub(super) fn facts(pem: &str) -> anyhow::Result<Facts> {
    let (_, pem) = parse_x509_pem(pem.as_bytes()).map_err(|error| anyhow!("it is no PEM: {error}"))?;
    let certificate = pem.parse_x509().map_err(|error| anyhow!("it is no certificate: {error}"))?;
    let names =
        certificate.subject_alternative_name().map_err(|error| anyhow!("its names are wrong: {error}"))?;
    let mut hosts = Vec::new();
    for name in names.into_iter().flat_map(|names| &names.value.general_names) {
        if let GeneralName::DNSName(name) = name {
            hosts.push((*name).to_owned());
        } else if let GeneralName::IPAddress(bytes) = name {
            hosts.extend(address(bytes));
        }
    }
    Ok(Facts { hosts, ends_secs: certificate.validity().not_after.timestamp() })
}

/// Refuses a certificate that is not for that key.
pub(super) fn check_pair(certificate: &str, key: &str) -> anyhow::Result<()> {
    let (_, pem) =
        parse_x509_pem(certificate.as_bytes()).map_err(|error| anyhow!("it is no PEM: {error}"))?;
    let certificate = pem.parse_x509().map_err(|error| anyhow!("it is no certificate: {error}"))?;
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

/// The address that a certificate has as bytes.
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
        let facts = facts(&certificate).unwrap();
        assert_eq!(facts.missing(&own), [""; 0]);
        assert_eq!(facts.missing(&hosts(&["localhost", "::1", "other"])), ["other"]);
        assert_eq!(facts.days_left(NOW), i64::from(SERVER_DAYS));
        assert_eq!(facts.days_left(facts.ends_secs + 1), -1);
        check_pair(&certificate, &key).unwrap();
        let error = check_pair(&certificate, &ca_key).unwrap_err().to_string();
        assert_eq!(error, "the certificate is for another key");
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
    fn what_cannot_be_used_is_said() {
        assert!(facts("nonsense").unwrap_err().to_string().contains("no PEM"));
        let (ca_key, key) = (new_key().unwrap(), new_key().unwrap());
        let ca = authority(&ca_key, NOW).unwrap();
        assert!(server(&ca, &ca_key, &key, &[], NOW).is_err());
        assert!(server(&ca, "nonsense", &key, &hosts(&["nats"]), NOW).is_err());
    }
}
