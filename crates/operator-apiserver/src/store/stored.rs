//! One version of an object, and its cached encodings: [`Stored`].

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use apimachinery::json;
use bytes::Bytes;
use serde_json::Value;

use crate::codec::protobuf;
use crate::measure::Measure;

/// One version of an object, with its encodings after they were first needed.
pub(crate) struct Stored {
    pub(crate) key: Arc<str>,
    pub(crate) revision: u64,
    pub(crate) value: Arc<Value>,
    /// The estimated memory of the object, in bytes.
    pub(crate) memory: usize,
    rendered: OnceLock<Rendered>,
    protobuf: OnceLock<Bytes>,
}

/// An object as JSON.
struct Rendered {
    bytes: Bytes,
    /// The positions of its apiVersion and its kind, each with the comma that follows it.
    type_: [Range<usize>; 2],
}

impl Stored {
    pub(crate) fn new(key: Arc<str>, revision: u64, value: Value) -> Arc<Self> {
        Arc::new(Self {
            key,
            revision,
            memory: Measure::of(&value).memory(),
            value: Arc::new(value),
            rendered: OnceLock::new(),
            protobuf: OnceLock::new(),
        })
    }

    /// Returns the object as JSON, which is rendered once.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.rendered().bytes
    }

    /// Returns the object as a protobuf message without envelope, which is rendered once.
    pub(crate) fn protobuf(&self) -> &Bytes {
        self.protobuf.get_or_init(|| {
            let text = |field: &str| self.value.get(field).and_then(Value::as_str).unwrap_or_default();
            Bytes::from(protobuf::encode::body(
                (text("apiVersion"), text("kind")),
                &self.value,
            ))
        })
    }

    /// Writes the object without its apiVersion and kind, as items of built-in lists are written.
    pub(crate) fn write_untyped(&self, out: &mut Vec<u8>) {
        let Rendered { bytes, type_ } = self.rendered();
        let mut from = 0;
        for cut in type_ {
            out.extend_from_slice(bytes.get(from..cut.start).unwrap_or_default());
            from = cut.end;
        }
        // If a removed field is the last one, the comma before it must be removed.
        let rest = bytes.get(from..).unwrap_or_default();
        if rest == b"}" && out.last() == Some(&b',') {
            out.pop();
        }
        out.extend_from_slice(rest);
    }

    fn rendered(&self) -> &Rendered {
        self.rendered.get_or_init(|| Rendered::new(&self.value))
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key, self.revision)
    }
}

impl Rendered {
    fn new(object: &Value) -> Self {
        let mut bytes = vec![b'{'];
        let mut type_ = Vec::new();
        let fields = object.as_object();
        let last = fields.map_or(0, |fields| fields.len().saturating_sub(1));
        for (index, (key, value)) in fields.into_iter().flatten().enumerate() {
            let start = bytes.len();
            json::write(&mut bytes, &Value::from(key.as_str()));
            bytes.push(b':');
            json::write(&mut bytes, value);
            if index < last {
                bytes.push(b',');
            }
            if key == "apiVersion" || key == "kind" {
                type_.push(start..bytes.len());
            }
        }
        bytes.push(b'}');
        let second = type_.pop().unwrap_or(0..0);
        let first = type_.pop().unwrap_or(0..0);
        Self {
            type_: [first, second],
            bytes: Bytes::from(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_type_is_omitted_at_any_position() {
        let objects = [
            json!({"apiVersion": "v1", "data": {"kind": "x"}, "kind": "A", "zone": 1}),
            json!({"apiVersion": "v1", "kind": "A"}),
            json!({"a": 1, "kind": "A"}),
            json!({"apiVersion": "v1", "b": [1.0, 2.5]}),
            json!({"a": {}}),
            json!({}),
        ];
        for object in objects {
            let stored = Stored::new("a".into(), 1, object.clone());
            assert_eq!(stored.bytes(), json::to_string(&object).as_bytes());
            let mut untyped = object.clone();
            for field in ["apiVersion", "kind"] {
                untyped.as_object_mut().unwrap().remove(field);
            }
            let mut written = b"[{},".to_vec();
            stored.write_untyped(&mut written);
            let wanted = format!("[{{}},{}", json::to_string(&untyped));
            assert_eq!(String::from_utf8(written).unwrap(), wanted, "{object}");
        }
    }
}
