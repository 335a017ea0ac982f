//! A stable hash of a template: the suffix of the names of ReplicaSets and ControllerRevisions.
//!
//! The value differs from kube-controller-manager's, which hashes Go's memory layout. No client can depend on it.

use serde_json::Value;

/// Unambiguous letters and digits that form no words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the hash of a template and the collision count.
pub(crate) fn template_hash(template: &Value, collisions: Option<i64>) -> String {
    let mut hash = Fnv::default();
    hash.value(template);
    if let Some(collisions) = collisions {
        hash.bytes(&collisions.to_le_bytes());
    }
    safe(&hash.0.to_string())
}

fn safe(text: &str) -> String {
    let letter = |byte: u8| ALPHABET.get(usize::from(byte) % ALPHABET.len());
    text.bytes().filter_map(letter).copied().map(char::from).collect()
}

/// A 32-bit FNV-1a hash.
struct Fnv(u32);

impl Default for Fnv {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }

    /// Hashes a value. Fields are hashed in the order of their names, independent of their order in the tree.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let mut names: Vec<&String> = fields.keys().collect();
                names.sort();
                self.bytes(b"{");
                for name in names {
                    self.bytes(name.as_bytes());
                    self.bytes(b":");
                    self.value(&fields[name]);
                }
                self.bytes(b"}");
            }
            Value::Array(items) => {
                self.bytes(b"[");
                items.iter().for_each(|item| self.value(item));
                self.bytes(b"]");
            }
            scalar => {
                self.bytes(scalar.to_string().as_bytes());
                self.bytes(b",");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hash_depends_on_the_template_and_on_collisions_only() {
        let template = json!({"spec": {"containers": [{"name": "c", "image": "x:1"}]}});
        let other = json!({"spec": {"containers": [{"name": "c", "image": "x:2"}]}});
        let hash = template_hash(&template, None);
        assert_eq!(hash, template_hash(&template.clone(), None));
        assert_ne!(hash, template_hash(&other, None));
        assert_ne!(hash, template_hash(&template, Some(1)));
        assert!(!hash.is_empty() && hash.len() <= 10 && hash.bytes().all(|byte| ALPHABET.contains(&byte)));
    }
}
