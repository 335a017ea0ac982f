//! A `metav1.Status` as a protobuf message: the one answer that a client gets in protobuf when it accepts nothing else.

use serde_json::Value;

use super::{MAGIC, Writer};

/// The bytes of a Status in the envelope of all protobuf bodies.
pub(crate) fn encode(status: &Value) -> Vec<u8> {
    let mut kind = Writer::default();
    kind.text(1, status, "apiVersion").text(2, status, "kind");
    let mut unknown = Writer::default();
    unknown
        .message(1, &kind.bytes)
        .message(2, &body(status).bytes)
        .message(3, &[])
        .message(4, &[]);
    [MAGIC, &unknown.bytes].concat()
}

fn body(status: &Value) -> Writer {
    let mut metadata = Writer::default();
    for field in 1..=3 {
        metadata.message(field, &[]);
    }
    let mut message = Writer::default();
    message
        .message(1, &metadata.bytes)
        .text(2, status, "status")
        .text(3, status, "message")
        .text(4, status, "reason");
    if let Some(found) = status.get("details") {
        message.message(5, &details(found).bytes);
    }
    message.number(6, status, "code");
    message
}

fn details(details: &Value) -> Writer {
    let mut message = Writer::default();
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
        let mut inner = Writer::default();
        inner
            .text(1, cause, "reason")
            .text(2, cause, "message")
            .text(3, cause, "field");
        message.message(4, &inner.bytes);
    }
    message
        .number(5, details, "retryAfterSeconds")
        .text(6, details, "uid");
    message
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
