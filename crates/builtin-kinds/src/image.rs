//! Parses image references to determine the default pull policy.

use std::sync::LazyLock;

use regex::Regex;

/// The maximum length of a repository without its domain, in bytes.
const REPOSITORY_MAX: usize = 255;

/// A reference after its domain: the repository, a tag and a digest. `None` is an error in this file, which the tests
/// detect.
static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let component = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    let repository = format!("{component}(?:/{component})*");
    let tag = "[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}";
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
    Regex::new(&format!("^({repository})(?::({tag}))?(?:@({digest}))?$")).ok()
});

/// A domain: a name or an IPv6 address, and a port.
static DOMAIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
    let name = format!(r"{label}(?:\.{label})*");
    Regex::new(&format!(r"^(?:{name}|\[[0-9a-fA-F:]+\])(?::[0-9]+)?$")).ok()
});

/// Returns true if an image has the tag `latest`, explicitly or because it has neither a tag nor a digest.
///
/// A malformed reference has no tag. The rules are those of `github.com/distribution/reference`.
pub(super) fn is_latest(image: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if image.len() == 64 && image.bytes().all(is_hex) {
        return false;
    }
    let is_domain = |text: &str| {
        text == "localhost" || text.contains(['.', ':']) || text.chars().any(|c| c.is_ascii_uppercase())
    };
    let (domain, rest) = match image.split_once('/') {
        Some((domain, rest)) if is_domain(domain) => (domain, rest),
        _ => ("docker.io", image),
    };
    let has_domain = DOMAIN.as_ref().is_some_and(|pattern| pattern.is_match(domain));
    let found = REFERENCE.as_ref().and_then(|pattern| pattern.captures(rest));
    let Some(found) = found.filter(|_| has_domain) else {
        return false;
    };
    let part = |number: usize| found.get(number).map_or("", |part| part.as_str());
    let repository = part(1);
    let is_official = matches!(domain, "docker.io" | "index.docker.io") && !repository.contains('/');
    let prefix = if is_official { "library/".len() } else { 0 };
    if prefix + repository.len() > REPOSITORY_MAX {
        return false;
    }
    match part(2) {
        "" => part(3).is_empty(),
        tag => tag == "latest",
    }
}

#[cfg(test)]
mod tests {
    use super::is_latest;

    #[test]
    fn an_image_is_latest_without_tag_and_digest_or_by_name() {
        let digest = format!("img:latest@sha256:{}", "a".repeat(64));
        let id = format!("{}:latest", "a".repeat(64));
        let long = "x".repeat(247);
        for image in [
            "img",
            "img:latest",
            "reg:5000/img",
            "a.b/c/d",
            "localhost/x",
            "[::1]:5/x",
            "a__b",
            "a--b",
            &digest,
            &id,
            &long,
        ] {
            assert!(is_latest(image), "{image}");
        }
        let digest = format!("img@sha256:{}", "a".repeat(64));
        let (id, long) = ("a".repeat(64), "x".repeat(248));
        for image in [
            "img:1",
            "img@sha256:aa",
            "img:latest@sha256:aa",
            "Img",
            "",
            "a//b",
            "a/B",
            "a..b",
            "a._b",
            "a:b/c",
            "a.-b/c",
            "a./b",
            "a:latest/b",
            &digest,
            &id,
            &long,
        ] {
            assert!(!is_latest(image), "{image}");
        }
    }
}
