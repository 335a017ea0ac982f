//! Names and hashes of the objects that OLM creates.

use serde_json::Value;
use sha2::{Digest, Sha224};

const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The maximum length of the name of a role and of the value of a label.
const NAME_MAX: usize = 63;

/// Returns the hash of a value: base62 of the SHA-224 of its JSON and a newline.
pub(crate) fn hash(value: &Value) -> String {
    let digest = Sha224::digest(format!("{value}\n"));
    base62(digest.iter().copied().collect())
}

/// Converts a number from base 256, most significant byte first, to base 62.
fn base62(mut number: Vec<u8>) -> String {
    let mut digits = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut remainder = 0_u32;
        for byte in &mut number {
            let current = (remainder << 8) | u32::from(*byte);
            *byte = u8::try_from(current / 62).unwrap_or(u8::MAX);
            remainder = current % 62;
        }
        digits.push(DIGITS[usize::try_from(remainder).unwrap_or(0) % 62]);
    }
    digits.iter().rev().map(|digit| char::from(*digit)).collect()
}

/// Appends a hash to a name. The name is shortened so that the result has at most 63 characters.
pub(crate) fn hashed(base: &str, hash: &str) -> String {
    let room = NAME_MAX.saturating_sub(hash.len() + 1);
    format!("{}-{hash}", shortened(base, room))
}

/// Shortens a name to a label value, which has at most 63 characters.
pub(crate) fn label(name: &str) -> String {
    shortened(name, NAME_MAX).to_owned()
}

fn shortened(text: &str, length: usize) -> &str {
    let end = text.char_indices().nth(length).map_or(text.len(), |(at, _)| at);
    text[..end].trim_end_matches(['-', '.'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hash_has_digits_and_letters_only_and_depends_on_the_value() {
        let hash = hash(&json!({"a": 1}));
        assert!(hash.len() > 30 && hash.bytes().all(|byte| DIGITS.contains(&byte)));
        assert_ne!(hash, super::hash(&json!({"a": 2})));
    }

    #[test]
    fn base62_counts_like_any_other_base() {
        assert_eq!(base62(vec![0, 61]), "Z");
        assert_eq!(base62(vec![62]), "10");
        assert_eq!(base62(vec![1, 0]), "48");
    }

    #[test]
    fn a_hashed_name_fits_into_a_label() {
        let name = hashed(&"n".repeat(80), &"h".repeat(38));
        assert_eq!(name.len(), 63);
        assert_eq!(hashed("op.v1", "x"), "op.v1-x");
    }
}
