//! Validates references of container images.

/// The maximum length of a reference, in bytes. A repository name has at most 255 characters.
const REFERENCE_MAX: usize = 1024;
const NAME_MAX: usize = 255;

/// Checks a reference such as `registry.example.com/team/app:v1@sha256:…`. A reference without a registry is allowed.
///
/// # Errors
/// Returns an error with the text of the library that container tools use.
pub fn check(reference: &str) -> Result<(), String> {
    let format = || Err("invalid reference format".to_owned());
    if reference.len() > REFERENCE_MAX {
        return format();
    }
    if reference.len() == 64 && reference.bytes().all(is_lower_hex) {
        return Err(format!(
            "invalid repository name ({reference}), cannot specify 64-byte hexadecimal strings"
        ));
    }
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    let (domain, remote) = match rest.split_once('/') {
        Some((first, rest)) if is_domain(first) => (Some(first), rest),
        _ => (None, rest),
    };
    let (path, tag) = match remote.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (remote, None),
    };
    if path.chars().any(char::is_uppercase) {
        return Err(format!(
            "invalid reference format: repository name ({path}) must be lowercase"
        ));
    }
    let valid = domain.is_none_or(is_valid_domain)
        && path.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    if !valid {
        return format();
    }
    if domain.map_or(0, str::len) + path.len() > NAME_MAX {
        return Err(format!(
            "repository name must not be more than {NAME_MAX} characters"
        ));
    }
    match digest.and_then(|digest| digest.split_once(':')) {
        None => Ok(()),
        Some((algorithm, hex)) => match algorithm {
            "sha256" if hex.len() == 64 => Ok(()),
            "sha384" if hex.len() == 96 => Ok(()),
            "sha512" if hex.len() == 128 => Ok(()),
            "sha256" | "sha384" | "sha512" => Err("invalid checksum digest length".to_owned()),
            _ => Err("unsupported digest algorithm".to_owned()),
        },
    }
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Returns true if the first part of a reference is a registry, and not a part of the path.
fn is_domain(part: &str) -> bool {
    part.contains(['.', ':']) || part == "localhost" || part.chars().any(char::is_uppercase)
}

fn is_valid_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !domain.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host_is_valid = match bracketed {
        Some(address) => {
            !address.is_empty()
                && address
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        }
        None => host.split('.').all(|label| {
            let inner = label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
        }),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    host_is_valid && port.is_none_or(is_port)
}

/// Returns true for lower-case letters and digits, separated by `.`, `_`, `__` or hyphens.
fn is_component(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends =
        bytes.first().is_some_and(|byte| is_word(*byte)) && bytes.last().is_some_and(|byte| is_word(*byte));
    let mut separators =
        text.split(|character: char| character.is_ascii_lowercase() || character.is_ascii_digit());
    ends && separators.all(|run| matches!(run, "" | "." | "_" | "__") || run.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&tag.len())
        && tag
            .bytes()
            .all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
        && tag.bytes().next().is_some_and(is_word)
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else {
        return false;
    };
    let named = algorithm
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic())
        && algorithm
            .split(['+', '.', '-', '_'])
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    named && hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn references_are_checked_as_container_tools_do() {
        let sha = "a".repeat(64);
        for good in [
            "app",
            "team/app:v1",
            "localhost:5000/a/b__c",
            "a.b/c-d@sha256:HEX",
            "a--b",
        ] {
            assert_eq!(check(&good.replace("HEX", &sha)), Ok(()), "{good}");
        }
        for bad in ["", "a b", "a/", "x@sha256:1", "a:", "a..b", "-a", "a.b:x/c"] {
            assert_eq!(check(bad), Err("invalid reference format".to_owned()), "{bad}");
        }
        let digest = format!("a@sha256:{}", "a".repeat(40));
        assert_eq!(check(&digest), Err("invalid checksum digest length".to_owned()));
        let upper = check("a.b/App:v1").unwrap_err();
        assert_eq!(
            upper,
            "invalid reference format: repository name (App) must be lowercase"
        );
    }
}
