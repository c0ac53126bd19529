//! Certificates for servers on 127.0.0.1, made by the `openssl` program.

use std::path::Path;
use std::process::Command;

use private_servers::NatsTls;

/// Makes a certificate authority and a server certificate in a directory.
///
/// # Panics
/// If `openssl` is not installed, or fails.
pub fn make(dir: &Path) -> NatsTls {
    let path = |name: &str| dir.join(name);
    let text = |name: &str| path(name).display().to_string();
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    let (ca, ca_key) = (text("ca.pem"), text("ca.key"));
    let authority = ["-x509", "-subj", "/CN=test authority", "-out", &ca, "-keyout", &ca_key];
    openssl(&[&["req"], &curve[..], &authority].concat());
    let (certificate, key) = (text("server.pem"), text("server.key"));
    let server = [
        "-x509",
        "-subj",
        "/CN=test server",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-CA",
        &ca,
        "-CAkey",
        &ca_key,
        "-out",
        &certificate,
        "-keyout",
        &key,
    ];
    openssl(&[&["req"], &curve[..], &server].concat());
    NatsTls { certificate: path("server.pem"), key: path("server.key"), ca: path("ca.pem") }
}

fn openssl(arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).output().expect("openssl is installed");
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
