//! [`Reference`], an image name: registry, repository and tag.

use crate::failure::Hinted;

/// `registry/repository:tag`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The host that serves the image, with its port.
    pub(crate) registry: String,
    pub(crate) repository: String,
    pub(crate) tag: String,
    /// The name as it was given, without the tag.
    pub(crate) name: String,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{name:?} is not the name of an image: {reason}")]
pub(crate) struct ReferenceError {
    name: String,
    reason: &'static str,
}

impl Hinted for ReferenceError {
    fn hint(&self) -> Option<String> {
        Some("write it as in registry.example.com/team/memcached-operator:v0.0.1".to_owned())
    }
}

/// The registry of names without a host.
const DOCKER: &str = "registry-1.docker.io";

// === impl Reference ===

impl Reference {
    pub(crate) fn parse(text: &str) -> Result<Self, ReferenceError> {
        let wrong = |reason| ReferenceError {
            name: text.to_owned(),
            reason,
        };
        if text.contains('@') {
            return Err(wrong("it has a digest, which is only known after the build"));
        }
        let (name, tag) = match text.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (text, "latest"),
        };
        if !is_tag(tag) {
            return Err(wrong(
                "its tag is too long, or has characters other than letters, digits, `_`, `.` and `-`",
            ));
        }
        let (registry, repository) = split_host(name);
        if !repository.split('/').all(is_component) {
            return Err(wrong(
                "its repository has characters other than lower-case letters, digits, `_`, `.` and `-`",
            ));
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository: if registry == DOCKER && !repository.contains('/') {
                format!("library/{repository}")
            } else {
                repository.to_owned()
            },
            tag: tag.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Parses the name of an image to pull. It may have a digest, which is then in `tag`.
    pub(crate) fn parse_any(text: &str) -> Result<Self, ReferenceError> {
        Self::check(text)?;
        let Some((name, digest)) = text.split_once('@') else {
            return Self::parse(text);
        };
        Ok(Self {
            tag: digest.to_owned(),
            ..Self::parse(name)?
        })
    }

    /// Checks an image name that a cluster pulls, which may have a digest.
    pub(crate) fn check(text: &str) -> Result<(), ReferenceError> {
        let Some((name, digest)) = text.split_once('@') else {
            return Self::parse(text).map(drop);
        };
        if !is_digest(digest) {
            return Err(ReferenceError {
                name: text.to_owned(),
                reason: "its digest is not `sha256:` and 64 hexadecimal digits",
            });
        }
        Self::parse(name).map(drop)
    }

    /// Returns true if the registry is on this machine. Such registries usually do not use TLS.
    pub(crate) fn is_local(&self) -> bool {
        let host = self
            .registry
            .rsplit_once(':')
            .map_or(self.registry.as_str(), |(host, _)| host);
        ["localhost", "127.0.0.1", "[::1]"].contains(&host)
    }
}

/// Splits off the first part if it is a host, because it could not be part of a repository.
fn split_host(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => match host {
            "docker.io" | "index.docker.io" => (DOCKER, rest),
            host => (host, rest),
        },
        _ => (DOCKER, name),
    }
}

fn is_digest(digest: &str) -> bool {
    digest.strip_prefix("sha256:").is_some_and(|digits| {
        digits.len() == 64
            && digits
                .chars()
                .all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
    })
}

fn is_tag(tag: &str) -> bool {
    let first = tag.chars().next();
    first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
        && tag.len() <= 128
        && tag
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

fn is_component(part: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    edge(part.chars().next())
        && edge(part.chars().last())
        && part
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let cases = [
            ("op", DOCKER, "library/op", "latest"),
            ("me/op:v1", DOCKER, "me/op", "v1"),
            ("docker.io/me/op:v1", DOCKER, "me/op", "v1"),
            (
                "quay.io/example/memcached-operator:v0.0.1",
                "quay.io",
                "example/memcached-operator",
                "v0.0.1",
            ),
            ("localhost:5000/op", "localhost:5000", "op", "latest"),
        ];
        for (text, registry, repository, tag) in cases {
            let reference = Reference::parse(text).unwrap();
            assert_eq!(
                (
                    reference.registry.as_str(),
                    reference.repository.as_str(),
                    reference.tag.as_str()
                ),
                (registry, repository, tag),
                "{text}"
            );
        }
        assert!(Reference::parse("127.0.0.1:5000/op").unwrap().is_local());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "Op",
            "op:",
            "op:a b",
            "op@sha256:00",
            "a//b",
            "-op",
            "quay.io/",
        ] {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
    }
}
