//! TLS by files in PEM.

use std::path::PathBuf;

use aerospike::TlsPolicy;
use rustls::ClientConfig;

use crate::Result;
use crate::tls::{certificates, private_key, provider, refused, roots};

/// The files of a TLS connection, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    ca: PathBuf,
    client: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// Trusts servers with certificates that one of the certificates in the file `ca` has signed.
    #[must_use]
    pub fn new(ca: impl Into<PathBuf>) -> Self {
        Self {
            ca: ca.into(),
            client: None,
        }
    }

    /// Shows a certificate to the servers, with its key.
    #[must_use]
    pub fn client(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.client = Some((certificate.into(), key.into()));
        self
    }
}

/// The client's policy of these files.
pub(super) fn policy(files: &TlsFiles) -> Result<TlsPolicy> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_root_certificates(roots(&files.ca)?);
    let config = match &files.client {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => config
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(refused)?,
    };
    Ok(TlsPolicy::new(config))
}
