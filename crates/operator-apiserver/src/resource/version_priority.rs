//! The order of API versions.

use std::cmp::Reverse;

/// The sort key of version names: stable before beta before alpha, newer before older, other names last.
pub(crate) type VersionPriority = (u8, Reverse<u32>, Reverse<u32>, String);

/// Returns the sort key of a version name.
pub(crate) fn version_priority(name: &str) -> VersionPriority {
    parse(name).unwrap_or((3, Reverse(0), Reverse(0), name.to_owned()))
}

fn parse(name: &str) -> Option<VersionPriority> {
    let rest = name.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, suffix) = rest.split_at_checked(digits)?;
    let major = major.parse().ok()?;
    if suffix.is_empty() {
        return Some((0, Reverse(major), Reverse(0), String::new()));
    }
    let (class, minor) = match suffix.strip_prefix("beta") {
        Some(minor) => (1, minor),
        None => (2, suffix.strip_prefix("alpha")?),
    };
    Some((class, Reverse(major), Reverse(minor.parse().ok()?), String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_newer_before_older() {
        let mut names = [
            "foo1",
            "v1alpha1",
            "v10",
            "v1beta2",
            "v2",
            "v11alpha2",
            "v1beta10",
            "foo10",
        ];
        names.sort_by_key(|name| version_priority(name));
        let want = [
            "v10",
            "v2",
            "v1beta10",
            "v1beta2",
            "v11alpha2",
            "v1alpha1",
            "foo1",
            "foo10",
        ];
        assert_eq!(names, want);
    }
}
