//! Writes PEM.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// The number of characters of a line.
const LINE: usize = 64;

/// Returns a block with a label, such as `CERTIFICATE`.
pub(super) fn encode(label: &str, der: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = more;
    }
    text + &format!("-----END {label}-----\n")
}
