//! `+kubebuilder:rbac` markers: permissions in comments of Go operators.
//!
//! The grammar is that of controller-gen: `+kubebuilder:rbac:` followed by comma-separated arguments. The values of a
//! list are separated by `;`, and a value may be bare, quoted or backquoted.

use super::Rule;

/// The prefix of a marker.
pub const PREFIX: &str = "+kubebuilder:rbac:";

/// An invalid marker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    /// An argument is not `name=value`.
    #[error("`{0}` is not an argument: write NAME=VALUE, and values with commas in quotes")]
    NoValue(String),
    /// The argument is unknown.
    #[error(
        "unknown argument `{0}`; known are groups, resources, verbs, resourceNames, urls, namespace and roleName"
    )]
    Unknown(String),
    /// The argument occurs twice.
    #[error("duplicate argument `{0}`")]
    Twice(String),
    /// A required argument is missing.
    #[error("a rule needs verbs, and either groups and resources or urls")]
    Incomplete,
    /// A quoted value is not terminated.
    #[error("the value of `{0}` has no closing quote")]
    Open(String),
}

/// Returns the rule in a comment line, or `None` if the line is not an RBAC marker.
///
/// ```
/// use operator_manifests::rbac::marker;
/// let line = "// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch";
/// let rule = marker::parse(line).unwrap().unwrap();
/// assert_eq!(rule.verbs, ["get", "list", "watch"]);
/// assert!(marker::parse("// a comment").is_none());
/// ```
pub fn parse(line: &str) -> Option<Result<Rule, MarkerError>> {
    let line = line.trim_start();
    let comment = line.strip_prefix("//")?;
    let text = comment.trim_start_matches(['/', '!']).trim();
    Some(rule(text.strip_prefix(PREFIX)?))
}

fn rule(text: &str) -> Result<Rule, MarkerError> {
    let mut rule = Rule::default();
    let mut seen: Vec<String> = Vec::new();
    let mut rest = text;
    while !rest.trim().is_empty() {
        let (name, after) = rest
            .split_once('=')
            .filter(|(name, _)| !name.contains(','))
            .ok_or_else(|| MarkerError::NoValue(argument(rest)))?;
        let name = name.trim();
        if seen.iter().any(|there| there == name) {
            return Err(MarkerError::Twice(name.to_owned()));
        }
        seen.push(name.to_owned());
        let (value, after) = value(name, after)?;
        set(&mut rule, name, value)?;
        rest = after;
    }
    let of_resources = !rule.api_groups.is_empty() && !rule.resources.is_empty();
    let of_urls = !rule.non_resource_urls.is_empty();
    match !rule.verbs.is_empty() && of_resources != of_urls {
        true => Ok(rule),
        false => Err(MarkerError::Incomplete),
    }
}

/// Returns the text up to the next comma.
fn argument(text: &str) -> String {
    text.split(',').next().unwrap_or_default().trim().to_owned()
}

/// Returns a value and the text after the comma that follows it.
fn value<'a>(name: &str, text: &'a str) -> Result<(&'a str, &'a str), MarkerError> {
    let text = text.trim_start();
    for quote in ['"', '`'] {
        let Some(inner) = text.strip_prefix(quote) else {
            continue;
        };
        let (value, after) = inner
            .split_once(quote)
            .ok_or_else(|| MarkerError::Open(name.to_owned()))?;
        let after = after.trim_start();
        if after.is_empty() {
            return Ok((value, ""));
        }
        let after = after.strip_prefix(',');
        return after
            .map(|after| (value, after))
            .ok_or_else(|| MarkerError::NoValue(argument(inner)));
    }
    Ok(text.split_once(',').unwrap_or((text, "")))
}

fn set(rule: &mut Rule, name: &str, value: &str) -> Result<(), MarkerError> {
    let list = match name {
        "groups" => &mut rule.api_groups,
        "resources" => &mut rule.resources,
        "verbs" => &mut rule.verbs,
        "resourceNames" => &mut rule.resource_names,
        "urls" => &mut rule.non_resource_urls,
        "namespace" => {
            rule.namespace = Some(value.trim().to_owned());
            return Ok(());
        }
        "roleName" => {
            rule.role_name = Some(value.trim().to_owned());
            return Ok(());
        }
        other => return Err(MarkerError::Unknown(other.to_owned())),
    };
    list.extend(value.split(';').map(|word| word.trim().to_owned()));
    Ok(())
}
