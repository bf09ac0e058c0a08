//! The stream of a connection: plain, or encrypted.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
#[cfg(feature = "tls")]
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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
    pub(crate) async fn begin(&self, stream: TcpStream) -> io::Result<ResultStream> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let agreed = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await??;
            return Ok(ResultStream::Tls(Box::new(agreed)));
        }
        Ok(ResultStream::Plain(stream))
    }
}

/// A stream.
#[derive(Debug)]
pub(crate) enum ResultStream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<TcpStream>>),
}

impl ResultStream {
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    pub(crate) const fn is_encrypted(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Writes what the socket takes at once, which is nothing of an encrypted stream.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(_) => Ok(0),
        }
    }

    fn parts(self: Pin<&mut Self>) -> StreamParts<'_> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(&mut **stream),
        }
    }
}

/// What both kinds of stream do.
trait Both: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Both for S {}
type StreamParts<'a> = Pin<&'a mut dyn Both>;

impl AsyncRead for ResultStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.parts().poll_read(context, buffer)
    }
}

impl AsyncWrite for ResultStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.parts().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.parts().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.parts().poll_shutdown(context)
    }
}
