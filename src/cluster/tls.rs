//! TLS by files in PEM.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aerospike::TlsPolicy;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::{Error, Result};

/// The files of a TLS connection, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    ca: PathBuf,
    client: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// The certificates of those who may have signed the servers'.
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

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::parameter(format!("TLS: {}: {why}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read: std::result::Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(path, error));
    match read {
        Ok(none) if none.is_empty() => Err(unreadable(path, "there is no certificate in it")),
        read => read,
    }
}

/// The client's policy of these files.
pub(super) fn policy(files: &TlsFiles) -> Result<TlsPolicy> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.ca)? {
        roots
            .add(certificate)
            .map_err(|error| unreadable(&files.ca, error))?;
    }
    let refused = |error: rustls::Error| Error::parameter(format!("TLS: {error}"));
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_root_certificates(roots);
    let config = match &files.client {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let private = PrivateKeyDer::from_pem_file(key);
            let private = private.map_err(|error| unreadable(key, error))?;
            config
                .with_client_auth_cert(chain, private)
                .map_err(refused)?
        }
    };
    Ok(TlsPolicy::new(config))
}
