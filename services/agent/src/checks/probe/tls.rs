//! TLS of checks: with the certificates that the node trusts, or with any certificate (`tls_skip_verify`).

use std::net::SocketAddr;
use std::sync::Arc;

use telemetry::chain;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::checks::check::Tls;

/// The settings of TLS connections. Each is made when it is first needed; the certificates that the node trusts are read
/// once.
#[derive(Default)]
pub(super) struct TlsConfigs {
    verifying: OnceCell<Arc<ClientConfig>>,
    trusting: OnceCell<Arc<ClientConfig>>,
}

impl TlsConfigs {
    /// Begins TLS on a connection. The error is a text for people.
    pub(super) async fn connect(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        settings: &Tls,
    ) -> Result<TlsStream<TcpStream>, String> {
        let config = match settings.verify {
            true => self.verifying.get_or_try_init(verifying).await?,
            false => self.trusting.get_or_try_init(async || trusting()).await?,
        };
        let name = match &*settings.server_name {
            "" => ServerName::from(address.ip()),
            name => ServerName::try_from(name.to_owned())
                .map_err(|_| "tls_server_name is not a DNS name".to_owned())?,
        };
        let connected = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
        connected.map_err(|error| chain(&error))
    }
}

/// Settings by which a server needs a certificate that the node trusts.
async fn verifying() -> Result<Arc<ClientConfig>, String> {
    let read = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let found = read.map_err(|error| chain(&error))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(
            "the node trusts no certificates: the package ca-certificates has the usual ones".to_owned()
        );
    }
    let versions = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| chain(&error))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// Settings by which a server may have any certificate.
fn trusting() -> Result<Arc<ClientConfig>, String> {
    let versions = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| chain(&error))?;
    let verifier = Arc::new(AnyCertificate(provider()));
    Ok(Arc::new(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Accepts every certificate. The server must still have the key of the one that it shows.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
