//! The stream of a connection: plain, or encrypted.

use std::io;
#[cfg(feature = "tls")]
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// How long a client may take to agree on a key.
#[cfg(feature = "tls")]
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How connections of a listener begin.
#[derive(Clone, Default)]
pub(crate) struct Acceptor {
    #[cfg(feature = "tls")]
    tls: Option<TlsAcceptor>,
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return f.write_str("encrypted");
        }
        f.write_str("plain")
    }
}

impl Acceptor {
    /// Encrypts all connections.
    #[cfg(feature = "tls")]
    pub(crate) fn tls(identity: &crate::TlsIdentity) -> crate::Result<Self> {
        Ok(Self {
            tls: Some(identity.config()?.into()),
        })
    }

    /// Begins a connection.
    ///
    /// # Errors
    /// If the client does not agree on a key in time, or has not the certificate that it needs.
    #[cfg_attr(
        not(feature = "tls"),
        allow(clippy::unused_async, reason = "as with TLS")
    )]
    pub(crate) async fn begin(&self, stream: TcpStream) -> io::Result<Box<dyn ClientStream>> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let agreed = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await??;
            return Ok(Box::new(agreed));
        }
        Ok(Box::new(stream))
    }
}

/// A stream of either kind.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Send + Unpin {
    fn socket(&self) -> &TcpStream;

    fn is_encrypted(&self) -> bool;

    /// Writes what the socket takes at once, which is nothing of an encrypted stream.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_encrypted() {
            Ok(0)
        } else {
            self.socket().try_write(bytes)
        }
    }
}

impl ClientStream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }

    fn is_encrypted(&self) -> bool {
        false
    }
}

#[cfg(feature = "tls")]
impl ClientStream for TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }

    fn is_encrypted(&self) -> bool {
        true
    }
}
