//! Rules for names that a user chooses, each with a suggestion. Pure.

use crate::failure::Hinted;

/// A name that breaks a rule.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {given:?} is not valid: {rule}")]
pub(crate) struct InvalidName {
    what: &'static str,
    given: String,
    rule: &'static str,
    suggestion: Option<String>,
}

impl Hinted for InvalidName {
    fn hint(&self) -> Option<String> {
        self.suggestion.clone()
    }
}

/// Invalid project names: names of keywords, and of dependencies of the crate.
const RESERVED_PACKAGES: [&str; 34] = [
    "abstract",
    "async",
    "await",
    "become",
    "box",
    "break",
    "clap",
    "const",
    "continue",
    "core",
    "crate",
    "dyn",
    "else",
    "enum",
    "extern",
    "fn",
    "futures",
    "k8s-openapi",
    "kube",
    "move",
    "operator-envtest",
    "operator-runtime",
    "proc-macro",
    "schemars",
    "self",
    "serde",
    "serde-json",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "tokio",
    "tracing",
];

/// Invalid kinds: their types would shadow types that every file uses.
const RESERVED_KINDS: [&str; 24] = [
    "Action",
    "Api",
    "Arc",
    "Clone",
    "Condition",
    "Conditions",
    "Context",
    "Controller",
    "Deployment",
    "Deserialize",
    "JsonSchema",
    "Manager",
    "Option",
    "Patch",
    "Pod",
    "PostParams",
    "Reconciler",
    "Request",
    "Result",
    "Self",
    "Serialize",
    "String",
    "TestEnv",
    "Watch",
];

const LABEL_RULE: &str = "a DNS label has 1 to 63 lower-case letters, digits and dashes, begins with a letter and does not end with a dash";

fn is_label(text: &str, first: fn(char) -> bool) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len())
        && text.starts_with(first)
        && !text.ends_with('-')
        && text.chars().all(inner)
}

fn is_subdomain(text: &str) -> bool {
    let first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 253 && text.split('.').all(|label| is_label(label, first))
}

/// Returns the nearest DNS label: lower case, with dashes instead of other characters.
fn nearest_label(text: &str) -> String {
    let dashed: String = text
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    let label: String = dashed
        .trim_start_matches(|c: char| !c.is_ascii_alphabetic())
        .chars()
        .take(63)
        .collect();
    label.trim_end_matches('-').to_owned()
}

/// Checks the name of a project: a DNS label that is also valid as the name of a crate.
pub(crate) fn check_project(name: &str) -> Result<(), InvalidName> {
    let invalid = |rule, suggestion: String| InvalidName {
        what: "project name",
        given: name.to_owned(),
        rule,
        suggestion: Some(suggestion),
    };
    if !is_label(name, |c| c.is_ascii_lowercase()) {
        let nearest = nearest_label(name);
        let better = if nearest.is_empty() {
            "memcached-operator".to_owned()
        } else {
            nearest
        };
        return Err(invalid(
            LABEL_RULE,
            format!("choose another with `--project-name {better}`"),
        ));
    }
    if RESERVED_PACKAGES.contains(&name) {
        let rule = "it is a Rust keyword, or the name of a crate that the project uses";
        return Err(invalid(
            rule,
            format!("choose another with `--project-name {name}-operator`"),
        ));
    }
    Ok(())
}

/// Checks a domain: a DNS subdomain.
pub(crate) fn check_domain(domain: &str) -> Result<(), InvalidName> {
    if is_subdomain(domain) {
        return Ok(());
    }
    Err(InvalidName {
        what: "domain",
        given: domain.to_owned(),
        rule: "a domain is DNS labels of lower-case letters, digits and dashes, separated by dots",
        suggestion: Some("use one such as `--domain example.com`".to_owned()),
    })
}

/// Checks an API group with the domain appended.
pub(crate) fn check_group(group: &str, domain: &str) -> Result<(), InvalidName> {
    let whole = format!("{group}.{domain}");
    if is_subdomain(group) && is_subdomain(&whole) {
        return Ok(());
    }
    let nearest = nearest_label(group);
    let better = if nearest.is_empty() {
        "cache".to_owned()
    } else {
        nearest
    };
    Err(InvalidName {
        what: "group",
        given: group.to_owned(),
        rule: "a group is DNS labels of lower-case letters, digits and dashes, without the project's domain",
        suggestion: Some(format!("use `--group {better}`")),
    })
}

/// Checks an API version: `v1`, `v1beta2`, `v2alpha1`.
pub(crate) fn check_version(version: &str) -> Result<(), InvalidName> {
    let number =
        |text: &str| !text.is_empty() && !text.starts_with('0') && text.chars().all(|c| c.is_ascii_digit());
    let digits = version.strip_prefix('v').unwrap_or_default();
    let valid = ["alpha", "beta"]
        .iter()
        .find_map(|stage| digits.split_once(stage))
        .map_or_else(|| number(digits), |(major, minor)| number(major) && number(minor));
    if valid && version.len() <= 63 {
        return Ok(());
    }
    Err(InvalidName {
        what: "version",
        given: version.to_owned(),
        rule: "a version is `v` and a number, then, unless it is stable, `alpha` or `beta` and a number",
        suggestion: Some("use one such as `--version v1alpha1`".to_owned()),
    })
}

/// Checks a kind of the project: it must be in CamelCase, and must not shadow a type that every file uses.
pub(crate) fn check_kind(kind: &str) -> Result<(), InvalidName> {
    check_kind_syntax(kind)?;
    if RESERVED_KINDS.contains(&kind) {
        return Err(InvalidName {
            what: "kind",
            given: kind.to_owned(),
            rule: "a type of this name is used by every controller",
            suggestion: Some(format!("use another, such as `--kind My{kind}`")),
        });
    }
    Ok(())
}

/// Checks that a kind is in CamelCase: ASCII letters and digits.
pub(crate) fn check_kind_syntax(kind: &str) -> Result<(), InvalidName> {
    let well_formed = (1..=63).contains(&kind.len())
        && kind.starts_with(|c: char| c.is_ascii_uppercase())
        && kind.chars().all(|c| c.is_ascii_alphanumeric());
    if well_formed {
        return Ok(());
    }
    let rule = if kind.len() > 63 {
        "a kind has at most 63 characters"
    } else {
        "a kind is in CamelCase: an upper-case letter, then letters and digits"
    };
    Err(InvalidName {
        what: "kind",
        given: kind.to_owned(),
        rule,
        suggestion: Some(format!("use `--kind {}`", nearest_kind(kind))),
    })
}

fn nearest_kind(kind: &str) -> String {
    let camel = camel_case(kind);
    if camel.is_empty() {
        "Memcached".to_owned()
    } else {
        camel
    }
}

/// Joins words with any separators as CamelCase: `memcached-backup` becomes `MemcachedBackup`.
pub(crate) fn camel_case(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let camel: String = words
        .filter_map(|word| {
            let first = word.chars().next()?;
            Some(first.to_ascii_uppercase().to_string() + word.get(1..).unwrap_or_default())
        })
        .collect();
    let camel = camel.trim_start_matches(|c: char| c.is_ascii_digit());
    camel.chars().take(63).collect()
}

/// Checks the name of a controller: a DNS label.
pub(crate) fn check_controller(name: &str) -> Result<(), InvalidName> {
    if is_label(name, |c| c.is_ascii_lowercase()) {
        return Ok(());
    }
    Err(InvalidName {
        what: "controller name",
        given: name.to_owned(),
        rule: LABEL_RULE,
        suggestion: Some(format!("use `--controller-name {}`", nearest_label(name))),
    })
}

/// Checks a plural: a DNS label.
pub(crate) fn check_plural(plural: &str) -> Result<(), InvalidName> {
    if is_label(plural, |c| c.is_ascii_lowercase()) {
        return Ok(());
    }
    Err(InvalidName {
        what: "plural",
        given: plural.to_owned(),
        rule: LABEL_RULE,
        suggestion: Some(format!("use `--plural {}`", nearest_label(plural))),
    })
}

/// Last words of kinds with irregular plurals.
const IRREGULAR_PLURALS: [(&str, &str); 8] = [
    ("data", "data"),
    ("equipment", "equipment"),
    ("information", "information"),
    ("series", "series"),
    ("species", "species"),
    ("child", "children"),
    ("mouse", "mice"),
    ("person", "people"),
];

/// Returns the plural of a kind by the common rules of English, in lower case.
pub(crate) fn plural_of(kind: &str) -> String {
    let word = kind.to_lowercase();
    let irregular = IRREGULAR_PLURALS
        .iter()
        .find_map(|(singular, plural)| Some(format!("{}{plural}", word.strip_suffix(singular)?)));
    if let Some(plural) = irregular {
        return plural;
    }
    let stem = |suffix: &str| word.strip_suffix(suffix).map(str::to_owned);
    let vowel_before_y = ["ay", "ey", "iy", "oy", "uy"]
        .iter()
        .any(|end| word.ends_with(end));
    if let Some(stem) = stem("y").filter(|_| !vowel_before_y) {
        return format!("{stem}ies");
    }
    if let Some(stem) = stem("sis") {
        return format!("{stem}ses");
    }
    if ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end)) {
        return format!("{word}es");
    }
    format!("{word}s")
}

/// Returns the module name of a kind: words in lower case separated by `_`, such as `http_route` for `HTTPRoute`.
pub(crate) fn snake_case(kind: &str) -> String {
    let characters: Vec<char> = kind.chars().collect();
    let mut out = String::new();
    for (index, c) in characters.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|i| characters.get(i));
        let after_lower = before.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let starts_word = before.is_some() && characters.get(index + 1).is_some_and(char::is_ascii_lowercase);
        if c.is_ascii_uppercase() && (after_lower || starts_word) {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass() {
        for name in ["memcached-operator", "a", "op2"] {
            assert_eq!(check_project(name), Ok(()));
        }
        for version in ["v1", "v1alpha1", "v2beta10", "v10"] {
            assert_eq!(check_version(version), Ok(()));
        }
        for kind in ["Memcached", "HTTPRoute", "V2Thing"] {
            assert_eq!(check_kind(kind), Ok(()));
        }
        assert_eq!(check_group("cache", "example.com"), Ok(()));
        assert_eq!(check_group("a.b", "example.com"), Ok(()));
        assert_eq!(check_domain("my.domain"), Ok(()));
    }

    #[test]
    fn bad_names_are_refused_with_a_better_one() {
        let hint = |result: Result<(), InvalidName>| result.unwrap_err().hint().unwrap();
        assert!(hint(check_project("My_Project")).contains("my-project"));
        assert!(hint(check_project("9lives")).contains("lives"));
        assert!(hint(check_project("kube")).contains("kube-operator"));
        assert!(hint(check_kind("memcached")).contains("Memcached"));
        assert!(hint(check_kind("my-cache")).contains("MyCache"));
        assert!(hint(check_group("Cache_1", "example.com")).contains("cache-1"));
        assert!(hint(check_plural("Caches")).contains("caches"));
        for version in [
            "1",
            "v",
            "v0",
            "v1alpha",
            "v1gamma1",
            "V1",
            "v1alpha01",
            "v1alpha1beta1",
        ] {
            assert!(check_version(version).is_err(), "{version}");
        }
        for domain in ["", "Example.com", "a..b", "-a.b", "a_b"] {
            assert!(check_domain(domain).is_err(), "{domain}");
        }
    }

    #[test]
    fn plurals_follow_english() {
        let kinds = [
            "Memcached",
            "Policy",
            "Gateway",
            "Ingress",
            "Mesh",
            "Box",
            "Data",
            "Metadata",
            "ComputerMouse",
            "Analysis",
        ];
        let plurals = [
            "memcacheds",
            "policies",
            "gateways",
            "ingresses",
            "meshes",
            "boxes",
            "data",
            "metadata",
            "computermice",
            "analyses",
        ];
        assert_eq!(kinds.map(plural_of), plurals);
    }

    #[test]
    fn modules_have_words_apart() {
        let kinds = ["Memcached", "FooBar", "HTTPRoute", "V2Thing", "MyCRD"];
        let modules = ["memcached", "foo_bar", "http_route", "v2_thing", "my_crd"];
        assert_eq!(kinds.map(snake_case), modules);
    }
}
