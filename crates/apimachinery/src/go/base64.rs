//! Base64 as Go's `base64.StdEncoding` reads it.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// The standard encoding with padding. The last bits of a text may have any value.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Decodes base64 with padding. Line breaks are ignored.
///
/// # Errors
/// Returns the position that Go reports as `illegal base64 data at input byte 3`.
///
/// ```
/// use apimachinery::go::base64::decode;
///
/// assert_eq!(decode("YQ=\n="), Ok(b"a".to_vec()));
/// assert_eq!(decode("YQ=="), decode("YR=="));
/// assert_eq!(decode("YQ="), Err(3));
/// ```
pub fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let kept: Vec<u8> = text.bytes().filter(|byte| !is_break(byte)).collect();
    ENGINE.decode(kept).map_err(|_| first_fault(text.as_bytes()))
}

/// Returns true for OpenAPI's format `byte`: base64 that is not empty, and has no line breaks.
pub fn is_byte_format(text: &str) -> bool {
    !text.is_empty() && !text.contains(['\r', '\n']) && decode(text).is_ok()
}

/// Encodes bytes with padding.
pub fn encode(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

/// Returns the position of the error in an invalid text. Padding must end the text, and complete a group of four.
fn first_fault(text: &[u8]) -> usize {
    let mut rest = text
        .iter()
        .enumerate()
        .filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    let mut in_group = 0;
    while let Some((position, byte)) = rest.next() {
        let is_digit = byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        if is_digit {
            in_group = (in_group + 1) % 4;
        } else if *byte != b'=' || in_group < 2 {
            return position;
        } else {
            return match (in_group, rest.next()) {
                (2, None) => text.len(),
                (2, Some((next, b'='))) => rest.next().map_or(next, |(garbage, _)| garbage),
                (2, Some((next, _))) => next - 1,
                (_, garbage) => garbage.map_or(position, |(garbage, _)| garbage),
            };
        }
    }
    text.len() - in_group
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn errors_have_the_positions_of_go() {
        for (text, position) in [
            ("Y", 0),
            ("YQ", 0),
            ("YWFhYQ", 4),
            ("YQ=", 3),
            ("YQ=\n", 4),
            ("YWFhYQ=", 7),
            ("=", 0),
            ("Y===", 1),
            ("Y Q==", 1),
            ("Y-Q=", 1),
            ("YQ=x", 2),
            ("YQ==x", 4),
            ("YQ==YQ==", 4),
            ("AAA=A", 4),
            ("AAAA=", 4),
        ] {
            assert_eq!(decode(text), Err(position), "{text:?}");
        }
    }

    #[test]
    fn encoded_bytes_are_decoded() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"\xff\xfe\xfd\xfc"] {
            assert_eq!(decode(&encode(bytes)).as_deref(), Ok(bytes));
        }
    }
}
