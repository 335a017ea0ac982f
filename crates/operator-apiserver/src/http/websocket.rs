//! WebSockets: the handshake and the frames, as in a real API server. Pure.
//!
//! A watch only sends. Data of its client is skipped as it arrives and never buffered.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use http::header::{
    CONNECTION, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, StatusCode, Uri};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::http::call::{Answer, Call};

/// The text that RFC 6455 appends to the key of a handshake.
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const VERSION: &str = "13";
/// The maximum payload of a frame from a client, as in the real server.
const PAYLOAD_MAX: u64 = 32 << 20;
/// The maximum payload of a control frame.
const CONTROL_MAX: usize = 125;

const FINAL: u8 = 0x80;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// The codes of a close frame: normal end, and protocol error.
pub(crate) const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;

/// Returns true if a request upgrades its connection.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    let connection = headers.get_all(CONNECTION).iter();
    headers.contains_key(UPGRADE)
        && connection
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|token| token.trim().eq_ignore_ascii_case("upgrade"))
}

/// Returns true if a request asks for a WebSocket.
pub(crate) fn is_requested(call: &Call) -> bool {
    is_upgrade(&call.headers) && call.header(UPGRADE).eq_ignore_ascii_case("websocket")
}

/// Returns the response to a handshake; its code is 101 if the handshake is valid.
pub(crate) fn handshake(call: &Call) -> Answer {
    let key = call.header(SEC_WEBSOCKET_KEY);
    if key.is_empty() {
        return refusal(StatusCode::BAD_REQUEST, "mismatch challenge/response");
    }
    if call.header(SEC_WEBSOCKET_VERSION) != VERSION {
        let mut answer = refusal(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        answer.set(SEC_WEBSOCKET_VERSION, VERSION);
        return answer;
    }
    if !is_uri(call.header(ORIGIN)) {
        return refusal(StatusCode::FORBIDDEN, "");
    }
    // The server does not choose between protocols.
    let protocol = call.header(SEC_WEBSOCKET_PROTOCOL).trim();
    if protocol.contains(',') {
        return refusal(StatusCode::BAD_REQUEST, "");
    }
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{KEY_SUFFIX}").as_bytes());
    let mut answer = refusal(StatusCode::SWITCHING_PROTOCOLS, "");
    answer.set(UPGRADE, "websocket");
    answer.set(CONNECTION, "Upgrade");
    answer.set(SEC_WEBSOCKET_ACCEPT, &BASE64_STANDARD.encode(hash));
    if !protocol.is_empty() {
        answer.set(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    answer
}

fn refusal(code: StatusCode, why: &str) -> Answer {
    let mut answer = Answer::new(code, "", Bytes::from(why.to_owned()));
    answer.headers.clear();
    answer
}

/// Returns true if an origin is an absolute URI or a path.
fn is_uri(origin: &str) -> bool {
    let parsed = origin.parse::<Uri>();
    parsed.is_ok_and(|uri| uri.scheme().is_some() || origin.starts_with('/'))
}

/// Returns the frame of an event.
pub(crate) fn event(payload: &[u8], is_text: bool) -> Bytes {
    frame(if is_text { TEXT } else { BINARY }, payload)
}

/// Returns a close frame.
pub(crate) fn close(code: u16) -> Bytes {
    frame(CLOSE, &code.to_be_bytes())
}

fn frame(kind: u8, payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(payload.len() + 10);
    frame.put_u8(FINAL | kind);
    match payload.len() {
        // Lengths up to the maximum of a control frame take one byte; the next two numbers announce two or eight bytes.
        short @ 0..=CONTROL_MAX => frame.put_u8(short as u8),
        medium @ 0..=0xffff => {
            frame.put_u8(126);
            frame.put_u16(medium as u16);
        }
        long => {
            frame.put_u8(127);
            frame.put_u64(long as u64);
        }
    }
    frame.put_slice(payload);
    frame.freeze()
}

/// The result of reading data from a client.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// Frames to send back.
    pub(crate) replies: BytesMut,
    /// True if the client closed the WebSocket or violated the protocol: nothing more is read.
    pub(crate) is_over: bool,
}

/// Reads the frames of a client.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The bytes of an incomplete head.
    head: Vec<u8>,
    /// The number of payload bytes of the current frame that have not arrived.
    left: u64,
    mask: [u8; 4],
    /// The start of the payload of a ping; `None` for other frames.
    ping: Option<Vec<u8>>,
    /// The number of payload bytes that were read.
    position: usize,
}

impl Reader {
    /// Processes received bytes.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> Received {
        let mut received = Received::default();
        while !bytes.is_empty() {
            if self.left > 0 {
                self.payload(&mut bytes);
            } else {
                let Some((first, rest)) = bytes.split_first() else {
                    break;
                };
                bytes = rest;
                self.head.push(*first);
                if let Err(code) = self.begin() {
                    if code != NORMAL {
                        received.replies.put(close(code));
                    }
                    received.is_over = true;
                    return received;
                }
            }
            if self.left == 0
                && self.head.is_empty()
                && let Some(payload) = self.ping.take()
            {
                received.replies.put(frame(PONG, &payload));
            }
        }
        received
    }

    /// Starts a frame if its head is complete. The error is the code of the close frame.
    fn begin(&mut self) -> Result<(), u16> {
        let &[first, second, ref rest @ ..] = self.head.as_slice() else {
            return Ok(());
        };
        if second & 0x80 == 0 {
            return Err(PROTOCOL_ERROR);
        }
        let (wide, short) = match second & 0x7f {
            126 => (2, 0),
            127 => (8, 0),
            short => (0, u64::from(short)),
        };
        if rest.len() < wide + 4 {
            return Ok(());
        }
        let (length, mask) = rest.split_at(wide);
        let length = length
            .iter()
            .fold(short, |length, byte| length << 8 | u64::from(*byte));
        let kind = first & 0x0f;
        if length > PAYLOAD_MAX || kind == CLOSE {
            return Err(NORMAL);
        }
        self.mask.copy_from_slice(mask);
        self.left = length;
        self.position = 0;
        self.ping = (kind == PING).then(Vec::new);
        self.head.clear();
        Ok(())
    }

    /// Skips payload, except the payload of a ping, which is kept.
    fn payload(&mut self, bytes: &mut &[u8]) {
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        let (part, rest) = bytes.split_at(length);
        if let Some(ping) = &mut self.ping {
            for byte in part {
                if ping.len() == CONTROL_MAX {
                    break;
                }
                let key = self.mask.get(self.position % 4).copied().unwrap_or_default();
                ping.push(byte ^ key);
                self.position += 1;
            }
        }
        self.left -= length as u64;
        *bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: [u8; 4] = [1, 2, 3, 4];

    /// Returns a frame of a client, which is masked.
    fn masked(first: u8, length: &[u8], payload: &[u8]) -> Vec<u8> {
        let payload = payload
            .iter()
            .zip(MASK.iter().cycle())
            .map(|(byte, key)| byte ^ key);
        [&[first], length, &MASK]
            .concat()
            .into_iter()
            .chain(payload)
            .collect()
    }

    fn ping(text: &[u8]) -> Vec<u8> {
        masked(0x89, &[0x80 | text.len() as u8], text)
    }

    #[test]
    fn events_have_the_shortest_form_of_their_length() {
        let head = |length: usize| event(&vec![b'x'; length], true)[..10].to_vec();
        assert_eq!(head(125)[..3], [0x81, 125, b'x']);
        assert_eq!(head(126)[..5], [0x81, 126, 0, 126, b'x']);
        assert_eq!(head(0xffff)[..5], [0x81, 126, 0xff, 0xff, b'x']);
        assert_eq!(head(0x1_0000), [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(event(b"", false)[..], [0x82, 0]);
        assert_eq!(close(NORMAL)[..], [0x88, 2, 3, 0xe8]);
    }

    #[test]
    fn pings_are_answered_however_they_are_split() {
        let stream = [
            ping(b"one"),
            masked(0x81, &[0x82], b"no"),
            ping(b""),
            ping(b"two"),
        ]
        .concat();
        for size in 1..=stream.len() {
            let mut reader = Reader::default();
            let mut replies = Vec::new();
            for part in stream.chunks(size) {
                let received = reader.read(part);
                assert!(!received.is_over);
                replies.extend(received.replies);
            }
            assert_eq!(replies, b"\x8a\x03one\x8a\x00\x8a\x03two", "parts of {size}");
        }
    }

    #[test]
    fn long_pings_are_answered_with_their_start() {
        let mut reader = Reader::default();
        let received = reader.read(&masked(0x89, &[0xfe, 0, 200], &[b'x'; 200]));
        assert_eq!(received.replies[..2], [0x8a, 125]);
        assert_eq!(received.replies.len(), 127);
    }

    #[test]
    fn data_of_all_kinds_is_skipped() {
        for first in [0x81, 0x82, 0x00, 0x83, 0xc1, 0x8a] {
            let mut reader = Reader::default();
            let received = reader.read(&masked(first, &[0x82], b"hi"));
            assert_eq!(received, Received::default(), "{first:x}");
            assert_eq!(reader.read(&ping(b"x")).replies[..], *b"\x8a\x01x");
        }
    }

    #[test]
    fn frames_that_end_a_websocket() {
        let cases: [(&str, Vec<u8>, &[u8]); 4] = [
            ("close", masked(0x88, &[0x82], &[3, 0xe8]), b""),
            ("without a mask", b"\x81\x02hi".to_vec(), b"\x88\x02\x03\xea"),
            (
                "too long",
                masked(0x81, &[0xff, 0, 0, 1, 0, 0, 0, 0, 0], b""),
                b"",
            ),
            ("longest", masked(0x81, &[0xff; 9], b""), b""),
        ];
        for (name, bytes, replies) in cases {
            let received = Reader::default().read(&bytes);
            assert!(received.is_over, "{name}");
            assert_eq!(received.replies[..], *replies, "{name}");
        }
    }
}
