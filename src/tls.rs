//! TLS by files in PEM.

use std::path::Path;
#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::sync::Arc;

use rustls::RootCertStore;
#[cfg(feature = "tls")]
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
#[cfg(feature = "tls")]
use rustls::server::WebPkiClientVerifier;

use crate::{Error, Result};

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::parameter(format!("TLS: {}: {why}", path.display()))
}

/// An error of a connection's configuration.
pub(crate) fn refused(error: impl std::fmt::Display) -> Error {
    Error::parameter(format!("TLS: {error}"))
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read: std::result::Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(path, error));
    match read {
        Ok(none) if none.is_empty() => Err(unreadable(path, "there is no certificate in it")),
        read => read,
    }
}

/// The certificates that the other side's may be signed by.
pub(crate) fn roots(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| unreadable(path, error))?;
    }
    Ok(roots)
}

pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable(path, error))
}

/// The files by which a server shows who it is, in PEM, for
/// [`ServerBuilder::listen_tls`](crate::server::ServerBuilder::listen_tls) and
/// [`MonitorBuilder::tls`](crate::monitor::MonitorBuilder::tls). They are read when the server
/// starts.
#[cfg(feature = "tls")]
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

#[cfg(feature = "tls")]
impl TlsIdentity {
    /// A certificate, with the certificates up to its root behind it, and its key.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            certificate: certificate.into(),
            key: key.into(),
            client_ca: None,
        }
    }

    /// Asks clients for a certificate that one of these has signed, and refuses those without.
    /// Default: clients need none.
    #[must_use]
    pub fn client_ca(mut self, certificates: impl Into<PathBuf>) -> Self {
        self.client_ca = Some(certificates.into());
        self
    }

    /// # Errors
    /// [`Error::Parameter`] if a file cannot be read, or certificate and key do not fit.
    #[cfg_attr(
        not(any(feature = "server", feature = "monitor")),
        allow(dead_code, reason = "servers use it")
    )]
    pub(crate) fn config(&self) -> Result<Arc<ServerConfig>> {
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(refused)?;
        let config = match &self.client_ca {
            None => config.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(roots(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                config.with_client_cert_verifier(verifier.build().map_err(refused)?)
            }
        };
        let (chain, key) = (certificates(&self.certificate)?, private_key(&self.key)?);
        let config = config.with_single_cert(chain, key).map_err(refused)?;
        Ok(Arc::new(config))
    }
}
