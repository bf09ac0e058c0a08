//! The eight bytes in front of every message: version, type, and the length of what follows.
//!
//! ```text
//! version: u8 (2), type: u8 (1 info, 2 security, 3 message, 4 compressed message), length: 48 bits, big-endian
//! ```

use super::bytes::patch;

/// The length of the header in bytes.
pub(crate) const FRAME_HEADER_BYTES: usize = 8;

/// The longest message: Aerospike's limit.
pub(crate) const MESSAGE_BYTES_MAX: usize = 128 << 20;

/// The longest text of info commands, and the longest security message. Real ones have a few
/// hundred bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;

const VERSION: u8 = 2;

/// The kinds of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Text commands about the server.
    Info = 1,
    /// Users and roles.
    Security = 2,
    /// Messages about records, compressed.
    Message = 3,
    /// Records, compressed.
    Compressed = 4,
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    /// The length of what follows the header.
    pub(crate) body_len: usize,
}

/// Why a header ends the connection: the bytes after it cannot be split into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("protocol version {0}: this server speaks {VERSION}")]
    Version(u8),
    #[error("message type {0} is unknown")]
    Kind(u8),
    #[error("a message of {len} bytes exceeds the limit of {limit}")]
    TooLong { len: u64, limit: usize },
}

impl Frame {
    /// Parses a header.
    pub(crate) fn parse(header: [u8; FRAME_HEADER_BYTES]) -> Result<Self, FrameError> {
        let [version, kind, ..] = header;
        let kind = match kind {
            1 => FrameKind::Info,
            2 => FrameKind::Security,
            3 => FrameKind::Message,
            4 => FrameKind::Compressed,
            other => return Err(FrameError::Kind(other)),
        };
        // Old clients send security messages with version 0.
        if version != VERSION && (version != 0 || kind != FrameKind::Security) {
            return Err(FrameError::Version(version));
        }
        let len = u64::from_be_bytes(header) & 0xffff_ffff_ffff;
        let limit = match kind {
            FrameKind::Info | FrameKind::Security => TEXT_BYTES_MAX,
            FrameKind::Message | FrameKind::Compressed => MESSAGE_BYTES_MAX,
        };
        match usize::try_from(len) {
            Ok(body_len) if body_len <= limit => Ok(Self { kind, body_len }),
            _ => Err(FrameError::TooLong { len, limit }),
        }
    }

    /// Parses the header that `bytes` begin with; `None` if it is not there as a whole yet.
    pub(crate) fn peek(bytes: &[u8]) -> Option<Result<Self, FrameError>> {
        bytes.first_chunk().map(|header| Self::parse(*header))
    }

    /// The header's bytes.
    pub(crate) const fn encode(self) -> [u8; FRAME_HEADER_BYTES] {
        let head = (VERSION as u64) << 56 | (self.kind as u64) << 48;
        (head | self.body_len as u64).to_be_bytes()
    }
}

/// Begins a frame at the end of `out`. Bytes that are appended until [`close_frame`] are its body.
/// Returns the frame's offset.
pub(crate) fn open_frame(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    at
}

/// Ends a frame of messages that was begun at `at`, or takes it back if it has none.
pub(crate) fn close_messages(out: &mut Vec<u8>, at: usize) {
    if out.len() <= at + FRAME_HEADER_BYTES {
        out.truncate(at);
    } else {
        close_frame(out, at, FrameKind::Message);
    }
}

/// Gives the messages from `at` on a frame of their own if the frame that was begun at `start`
/// would be longer than a message may be. Returns the offset of the open frame.
pub(crate) fn split_frame(out: &mut Vec<u8>, start: usize, at: usize) -> usize {
    let is_first = at <= start + FRAME_HEADER_BYTES;
    if is_first || out.len() - start <= FRAME_HEADER_BYTES + MESSAGE_BYTES_MAX {
        return start;
    }
    drop(out.splice(at..at, [0; FRAME_HEADER_BYTES]));
    let (before, _) = out.split_at_mut(at);
    close_frame(before, start, FrameKind::Message);
    at
}

/// Ends the frame that was begun at `at`.
pub(crate) fn close_frame(out: &mut [u8], at: usize, kind: FrameKind) {
    let body_len = out.len().saturating_sub(at + FRAME_HEADER_BYTES);
    patch(out, at, &Frame { kind, body_len }.encode());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let mut out = vec![9];
        let at = open_frame(&mut out);
        out.extend_from_slice(b"node\n");
        close_frame(&mut out, at, FrameKind::Info);
        assert_eq!(out, b"\x09\x02\x01\0\0\0\0\0\x05node\n");
        let frame = Frame::peek(&out[1..]).unwrap().unwrap();
        assert_eq!((frame.kind, frame.body_len), (FrameKind::Info, 5));
        assert_eq!(Frame::peek(&out[1..8]), None);
    }

    #[test]
    fn what_cannot_be_framed_is_refused() {
        let table: [([u8; 8], FrameError); 5] = [
            ([1, 3, 0, 0, 0, 0, 0, 22], FrameError::Version(1)),
            ([0, 3, 0, 0, 0, 0, 0, 22], FrameError::Version(0)),
            ([2, 9, 0, 0, 0, 0, 0, 22], FrameError::Kind(9)),
            (
                [2, 3, 0, 0, 0x08, 0, 0, 1],
                FrameError::TooLong {
                    len: (128 << 20) + 1,
                    limit: 128 << 20,
                },
            ),
            (
                [2, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                FrameError::TooLong {
                    len: (1 << 48) - 1,
                    limit: 1 << 20,
                },
            ),
        ];
        for (header, error) in table {
            assert_eq!(Frame::parse(header), Err(error));
        }
        assert!(Frame::parse([0, 2, 0, 0, 0, 0, 0, 16]).is_ok());
        assert!(Frame::parse([2, 3, 0, 0, 0x08, 0, 0, 0]).is_ok());
    }
}
