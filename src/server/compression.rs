//! Compressed messages: a frame inside a zlib stream.
//!
//! ```text
//! body = length: u64 (of the frame inside, with its header), zlib stream (RFC 1950)
//! ```

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::bytes::UnreadBytes;
use super::frame::{
    FRAME_HEADER_BYTES, Frame, FrameKind, MESSAGE_BYTES_MAX, close_frame, open_frame,
};

/// Answers that are shorter are not worth compressing: the bound that clients have for requests.
const COMPRESSED_BYTES_MIN: usize = 128;

/// The most bytes that zlib can make of one byte. A frame that announces more is malformed.
const RATIO_MAX: usize = 1032;

/// Room that is taken before anything has come out.
const FIRST_BYTES: usize = 64 << 10;

/// Inflates the body of a compressed frame and returns the body of the message inside; `None` if it
/// does not hold one. Memory grows with the inflated bytes, not with the announced size, and
/// inflating stops beyond that size.
pub(crate) fn inflate(body: &[u8]) -> Option<Vec<u8>> {
    let mut cursor = UnreadBytes(body);
    let announced = usize::try_from(cursor.u64()?).ok()?;
    let possible = cursor.len().saturating_mul(RATIO_MAX);
    if !(FRAME_HEADER_BYTES..=MESSAGE_BYTES_MAX + FRAME_HEADER_BYTES).contains(&announced)
        || announced > possible
    {
        return None;
    }
    let mut decoder = ZlibDecoder::new(cursor.0);
    let mut header = [0; FRAME_HEADER_BYTES];
    decoder.read_exact(&mut header).ok()?;
    let frame = Frame::parse(header).ok()?;
    if frame.kind != FrameKind::Message || frame.body_len != announced - FRAME_HEADER_BYTES {
        return None;
    }
    let mut inside = Vec::with_capacity(frame.body_len.min(FIRST_BYTES));
    // One byte more than there may be, so that a longer stream is noticed.
    decoder
        .take(frame.body_len as u64 + 1)
        .read_to_end(&mut inside)
        .ok()?;
    (inside.len() == frame.body_len).then_some(inside)
}

/// Compresses the frame that `out` ends with, from `at` on, if that is worth it.
pub(crate) fn compress(out: &mut Vec<u8>, at: usize) {
    let Some(plain) = out
        .get(at..)
        .filter(|plain| plain.len() > COMPRESSED_BYTES_MIN)
    else {
        return;
    };
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let Ok(deflated) = encoder.write_all(plain).and_then(|()| encoder.finish()) else {
        // Writing to memory does not fail; if it did, the plain answer is as good.
        return;
    };
    let plain_len = plain.len() as u64;
    if deflated.len() + size_of::<u64>() >= plain.len() {
        return;
    }
    out.truncate(at);
    let at = open_frame(out);
    out.extend_from_slice(&plain_len.to_be_bytes());
    out.extend_from_slice(&deflated);
    close_frame(out, at, FrameKind::Compressed);
}

/// Compresses each frame of `out` from `at` on.
pub(crate) fn compress_frames(out: &mut Vec<u8>, at: usize) {
    let plain = out.split_off(at);
    let mut rest = plain.as_slice();
    while let Some(Ok(frame)) = Frame::peek(rest) {
        let (one, behind) = rest.split_at((FRAME_HEADER_BYTES + frame.body_len).min(rest.len()));
        let at = out.len();
        out.extend_from_slice(one);
        compress(out, at);
        rest = behind;
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let at = open_frame(&mut out);
        out.extend_from_slice(body);
        close_frame(&mut out, at, FrameKind::Message);
        out
    }

    #[test]
    fn a_compressed_frame_is_read_back() {
        let body = vec![7; 5000];
        let mut out = frame(&body);
        compress(&mut out, 0);
        assert!(out.len() < 200);
        let outer = Frame::peek(&out).unwrap().unwrap();
        assert_eq!(outer.kind, FrameKind::Compressed);
        assert_eq!(inflate(&out[FRAME_HEADER_BYTES..]), Some(body));
    }

    #[test]
    fn short_frames_and_those_that_do_not_shrink_stay_as_they_are() {
        let short = frame(&[0; 100]);
        let mut out = short.clone();
        compress(&mut out, 0);
        assert_eq!(out, short);
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .take(300)
        .collect();
        let noise = frame(&noise);
        let mut out = noise.clone();
        compress(&mut out, 0);
        assert_eq!(out, noise);
    }

    #[test]
    fn lies_about_the_length_are_refused() {
        let mut out = frame(&vec![7; 5000]);
        compress(&mut out, 0);
        let body = &out[FRAME_HEADER_BYTES..];
        for len in [0_u64, 7, 8, 5007, 5009, 128 << 20, 1 << 40, u64::MAX] {
            let mut lie = body.to_vec();
            lie[..8].copy_from_slice(&len.to_be_bytes());
            assert_eq!(inflate(&lie), None, "{len}");
        }
        for len in 0..body.len() - 4 {
            assert_eq!(inflate(&body[..len]), None, "{len}");
        }
    }
}
