//! Parses image references to determine the default pull policy.

/// Returns true if an image has the tag `latest`, explicitly or because it has neither a tag nor a digest.
///
/// A malformed reference has no tag.
pub(super) fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    let (name, tag) = last.split_once(':').unwrap_or((last, "latest"));
    tag == "latest" && path_is_valid(image.strip_suffix(last).unwrap_or_default(), name)
}

/// Returns true if the path before a name, and the name, are a valid repository.
fn path_is_valid(prefix: &str, name: &str) -> bool {
    let mut components = prefix.split_terminator('/');
    let first = components.next();
    let is_domain = |text: &str| {
        text == "localhost" || text.contains(['.', ':']) || text.chars().any(|c| c.is_ascii_uppercase())
    };
    let first_is_valid = first.is_none_or(|text| is_domain(text) || is_component(text));
    let is_bare_digest =
        first.is_none() && name.len() == 64 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    first_is_valid && !is_bare_digest && components.all(is_component) && is_component(name)
}

/// Returns true for lower-case letters and digits with separators only between them.
fn is_component(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let edges = [bytes.first(), bytes.last()];
    edges.into_iter().all(|edge| edge.copied().is_some_and(is_word))
        && bytes.iter().all(|b| is_word(*b) || b"._-".contains(b))
}

#[cfg(test)]
mod tests {
    use super::is_latest;

    #[test]
    fn an_image_is_latest_without_tag_and_digest_or_by_name() {
        for image in ["img", "img:latest", "reg:5000/img", "a.b/c/d", "localhost/x"] {
            assert!(is_latest(image), "{image}");
        }
        for image in [
            "img:1",
            "img@sha256:aa",
            "img:latest@sha256:aa",
            "Img",
            "",
            "a//b",
            "a/B",
        ] {
            assert!(!is_latest(image), "{image}");
        }
    }
}
