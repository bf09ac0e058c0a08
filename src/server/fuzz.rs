//! Entry points for fuzz targets: they handle a client's bytes as a connection would, without a
//! socket.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::batch::Batch;
use super::builder::Server;
use super::command::RecordCommand;
use super::compression;
use super::fields::Field;
use super::frame::{FRAME_HEADER_BYTES, Frame, FrameKind};
use super::info::{self, Session};
use super::message::{Info1, Message};
use super::query::{self, QueryStep};
use super::response_buffer::ResponseBuffer;
use super::security::{Access, Security, SecurityOptions};
use super::shared::ServerShared;
use super::transaction::part::TransactionPart;
use crate::{Digest, Expression, Result, Store};

/// A server without a listener.
pub struct FuzzTarget {
    shared: Arc<ServerShared>,
    security: Arc<Security>,
}

impl std::fmt::Debug for FuzzTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FuzzTarget")
    }
}

impl FuzzTarget {
    /// Takes the namespaces of a store under service.
    ///
    /// # Errors
    /// As when a server is started.
    pub fn new(store: &Store) -> Result<Self> {
        let shared = ServerShared::new(&Server::builder(store), 3000, None)?;
        let security = Security::open(store, &SecurityOptions::default())?;
        Ok(Self {
            shared: Arc::new(shared),
            security: Arc::new(security),
        })
    }

    /// Takes frames off the front of `bytes` while they are whole. Returns how many messages about
    /// records there were, plain or compressed.
    #[must_use]
    pub fn frames(bytes: &[u8]) -> usize {
        let mut rest = bytes;
        let mut messages = 0;
        while let Some(Ok(frame)) = Frame::peek(rest) {
            let header = frame.encode();
            assert!(rest.starts_with(&header) || rest.first() == Some(&0));
            let Some((one, behind)) = rest.split_at_checked(FRAME_HEADER_BYTES + frame.body_len)
            else {
                break;
            };
            let body = one.get(FRAME_HEADER_BYTES..).unwrap_or_default();
            let inside = match frame.kind {
                FrameKind::Message => Some(body.to_vec()),
                FrameKind::Compressed => compression::inflate(body),
                FrameKind::Info | FrameKind::Security => None,
            };
            messages += usize::from(inside.is_some_and(|body| Message::parse(&body).is_some()));
            rest = behind;
        }
        messages
    }

    /// Answers info commands.
    #[must_use]
    pub fn info(&self, text: &[u8]) -> Vec<u8> {
        let mut session = Session {
            local: SocketAddr::from(([127, 0, 0, 1], 3000)),
            peer: "nobody".to_owned(),
            user_agent: None,
            is_encrypted: false,
            access: Access::new(None, IpAddr::V4(Ipv4Addr::LOCALHOST)),
        };
        let mut out = Vec::new();
        info::answer(&self.shared, &mut session, text, &mut out);
        out
    }

    /// Executes the body of a security message, by a client that has sent `before` on the same
    /// connection.
    #[must_use]
    pub fn administer(&self, before: &[u8], body: &[u8]) -> Vec<u8> {
        let security = Some(Arc::clone(&self.security));
        let mut access = Access::new(security, IpAddr::V4(Ipv4Addr::LOCALHOST));
        access.administer(before, &mut Vec::new());
        let mut out = Vec::new();
        access.administer(body, &mut out);
        assert!(out.len() >= 16, "an answer has no head");
        out
    }

    /// Executes a message. Returns the bodies of the answer's messages, without frames; `None` if
    /// it is malformed.
    #[must_use]
    pub fn execute(&self, body: &[u8]) -> Option<Vec<u8>> {
        let message = Message::parse(body)?;
        let fields = &message.fields;
        let mut out = ResponseBuffer::new(self.shared.budget.share());
        if message.head.info1.contains(Info1::BATCH) {
            let mut batch = Batch::start(
                &self.shared,
                Access::new(None, IpAddr::V4(Ipv4Addr::LOCALHOST)),
                &message,
            )
            .ok()?;
            while batch.step(&mut out) {}
            return Some(unframed(&out));
        }
        let served = self.shared.namespace(fields.get(Field::Namespace)?)?;
        let Some(digest) = fields.get(Field::Digest) else {
            match query::start(&self.shared, served, &message, "nobody", None).ok()? {
                Some(query) if query.is_change() => query.run_alone(),
                Some(mut query) => while query.step(&mut out) == QueryStep::More {},
                None => {}
            }
            return Some(unframed(&out));
        };
        let filter = fields.get(Field::Filter);
        let filter = filter.map(|encoded| Expression::of_encoded(encoded.into()));
        let command = RecordCommand {
            part: TransactionPart::of(&message),
            message,
            digest: Digest::new(digest.try_into().ok()?),
            filter: filter.as_ref(),
            row: None,
            served,
        };
        command.execute(&mut out);
        assert!(Message::parse(&out).is_some(), "an answer is malformed");
        Some(out.to_vec())
    }
}

/// The bodies of frames, which must be whole and fill the bytes.
fn unframed(mut frames: &[u8]) -> Vec<u8> {
    let mut bodies = Vec::new();
    while let Some(frame) = Frame::peek(frames) {
        let len = FRAME_HEADER_BYTES + frame.map_or(0, |frame| frame.body_len);
        let (one, behind) = frames.split_at_checked(len).unwrap_or_default();
        assert_eq!(one.len(), len, "an answer is cut off");
        bodies.extend_from_slice(one.get(FRAME_HEADER_BYTES..).unwrap_or_default());
        frames = behind;
    }
    assert!(frames.is_empty(), "an answer has bytes left over");
    bodies
}
