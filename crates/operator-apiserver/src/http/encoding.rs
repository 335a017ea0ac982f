//! `Accept-Encoding`: compresses long responses for clients that support it.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, VARY};

use crate::http::call::{Answer, Content};

/// The minimum length of compressed responses: the threshold of kube-apiserver.
const LENGTH_MIN: usize = 128 * 1024;

/// Compresses a long response if the client accepts it. Streams are not compressed.
pub(crate) fn compress(answer: &mut Answer, request: &HeaderMap) {
    let Content::Whole(bytes) = &answer.content else {
        return;
    };
    if bytes.len() <= LENGTH_MIN || !accepts_gzip(request) {
        return;
    }
    let Some(compressed) = gzip(bytes) else {
        return;
    };
    answer.content = Content::Whole(compressed);
    answer
        .headers
        .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let varies = HeaderValue::from_static("Accept-Encoding");
    if !answer.headers.get_all(VARY).iter().any(|value| value == varies) {
        answer.headers.append(VARY, varies);
    }
}

/// Returns true if the client accepts gzip. As in kube-apiserver, only the first header counts, and weights are not
/// recognized.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let accepted = request.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|text| text.split(',').any(|coding| coding.trim() == "gzip"))
}

fn gzip(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}
