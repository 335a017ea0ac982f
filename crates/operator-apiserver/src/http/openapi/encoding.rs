//! Encodes documents member by member. As JSON values, the members of thousands of resources take gigabytes.

use apimachinery::json;
use serde_json::Value;

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    PrettyJson,
    Protobuf,
}

impl Encoding {
    /// Returns a member of a JSON object: its name, and its value at a level of nesting.
    pub(super) fn member(self, name: &str, value: &Value, level: usize) -> Vec<u8> {
        let mut member = self.name(name);
        if self == Self::PrettyJson {
            let text = serde_json::to_string_pretty(value).unwrap_or_default();
            // Strings contain no unescaped line breaks.
            member.extend_from_slice(text.replace('\n', &line_break(level)).as_bytes());
        } else {
            json::write(&mut member, value);
        }
        member
    }

    /// Returns a member whose value is an object of encoded members at a level of nesting.
    pub(super) fn members(self, name: &str, members: impl Iterator<Item = Vec<u8>>, level: usize) -> Vec<u8> {
        let mut member = self.name(name);
        self.write_object(&mut member, members, level);
        member
    }

    /// Returns a document of encoded members.
    pub(super) fn document(self, members: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
        let mut document = Vec::new();
        self.write_object(&mut document, members, 0);
        document
    }

    fn name(self, name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        json::write(&mut out, &Value::from(name));
        out.extend_from_slice(if self == Self::PrettyJson { b": " } else { b":" });
        out
    }

    fn write_object(self, out: &mut Vec<u8>, members: impl Iterator<Item = Vec<u8>>, level: usize) {
        let is_pretty = self == Self::PrettyJson;
        out.push(b'{');
        let mut is_empty = true;
        for mut member in members {
            if !is_empty {
                out.push(b',');
            }
            if is_pretty {
                out.extend_from_slice(line_break(level + 1).as_bytes());
            }
            out.append(&mut member);
            is_empty = false;
        }
        if is_pretty && !is_empty {
            out.extend_from_slice(line_break(level).as_bytes());
        }
        out.push(b'}');
    }
}

/// Returns a line break with the indentation of a level of nesting.
fn line_break(level: usize) -> String {
    format!("\n{}", "  ".repeat(level))
}
