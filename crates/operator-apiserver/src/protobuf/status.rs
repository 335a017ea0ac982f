//! A `metav1.Status` as a protobuf message: the one answer that a client gets in protobuf when it accepts nothing else.

use serde_json::Value;

use super::MAGIC;

const LENGTH_DELIMITED: u64 = 2;
const SEVEN_BITS: u64 = 0x7f;
const MORE: u8 = 0x80;

/// The bytes of a Status in the envelope of all protobuf bodies.
pub(crate) fn encode(status: &Value) -> Vec<u8> {
    let mut kind = Message::default();
    kind.text(1, status, "apiVersion").text(2, status, "kind");
    let mut unknown = Message::default();
    unknown
        .bytes(1, &kind.0)
        .bytes(2, &body(status).0)
        .bytes(3, &[])
        .bytes(4, &[]);
    [MAGIC, &unknown.0].concat()
}

fn body(status: &Value) -> Message {
    let mut metadata = Message::default();
    for field in 1..=3 {
        metadata.bytes(field, &[]);
    }
    let mut message = Message::default();
    message
        .bytes(1, &metadata.0)
        .text(2, status, "status")
        .text(3, status, "message")
        .text(4, status, "reason");
    if let Some(found) = status.get("details") {
        message.bytes(5, &details(found).0);
    }
    message.number(6, status, "code");
    message
}

fn details(details: &Value) -> Message {
    let mut message = Message::default();
    message
        .text(1, details, "name")
        .text(2, details, "group")
        .text(3, details, "kind");
    for cause in details
        .get("causes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let mut inner = Message::default();
        inner
            .text(1, cause, "reason")
            .text(2, cause, "message")
            .text(3, cause, "field");
        message.bytes(4, &inner.0);
    }
    message
        .number(5, details, "retryAfterSeconds")
        .text(6, details, "uid");
    message
}

/// A message under construction. As Go does, fields are written whether they are empty or not.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value > SEVEN_BITS {
            self.0.push((value & SEVEN_BITS) as u8 | MORE);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(&mut self, field: u64, parent: &Value, name: &str) -> &mut Self {
        let text = parent.get(name).and_then(Value::as_str).unwrap_or_default();
        self.bytes(field, text.as_bytes())
    }

    fn number(&mut self, field: u64, parent: &Value, name: &str) -> &mut Self {
        self.varint(field << 3);
        self.varint(parent.get(name).and_then(Value::as_u64).unwrap_or_default());
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_an_envelope_with_all_fields_in_order() {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "m", "reason": "r", "code": 406});
        let bytes = encode(&status);
        let mut wanted = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x1a".to_vec();
        wanted.extend_from_slice(
            b"\x0a\x06\x0a\0\x12\0\x1a\0\x12\x07Failure\x1a\x01m\x22\x01r\x30\x96\x03\x1a\0\x22\0",
        );
        assert_eq!(bytes, wanted);
    }
}
