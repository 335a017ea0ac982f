//! Validates an AuthenticationConfiguration, with the texts of the real server.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::go::url::parse_reference;
use apimachinery::names;
use builtin_kinds::expression::{Environment, Returns};
use kubernetes_cel::types::Type;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::configuration::{AuthenticationConfiguration, list, text, texts};
use super::mapping::{claims_environment, user_environment};

const ISSUERS_MAX: usize = 64;
const EITHER: &str = "claim or expression is required";
const NOT_BOTH: &str = "claim and expression can't both be set";

/// Returns the errors of a configuration.
pub(super) fn validate(config: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let root = Path::new("jwt");
    let issuers = list(config, "jwt");
    if issuers.len() > ISSUERS_MAX {
        errors.push(Error::too_many(root, issuers.len(), ISSUERS_MAX));
        return errors;
    }
    let mut seen = Seen::default();
    for (index, jwt) in issuers.iter().enumerate() {
        let path = root.index(index);
        let issuer = jwt.get("issuer").unwrap_or(&Value::Null);
        validate_issuer(&mut errors, &path.child("issuer"), issuer, &mut seen);
        let verifies_email = validate_claim_rules(&mut errors, &path.child("claimValidationRules"), jwt);
        validate_mappings(&mut errors, &path.child("claimMappings"), jwt, verifies_email);
        validate_user_rules(&mut errors, &path.child("userValidationRules"), jwt);
    }
    validate_anonymous(&mut errors, config);
    errors
}

/// Returns an error for each issuer that is also an issuer of service account tokens.
pub(super) fn overlap(configuration: &AuthenticationConfiguration, disallowed: &[String]) -> ErrorList {
    let urls = configuration
        .issuers()
        .map(|jwt| apimachinery::object::text(jwt, &["issuer", "url"]));
    let overlapping = urls.filter(|url| disallowed.iter().any(|known| known == url));
    overlapping
        .map(|url| {
            let why = format!(
                "URL must not overlap with disallowed issuers: [{}]",
                disallowed.join(" ")
            );
            Error::invalid(Path::new("issuer").child("url"), json!(url), why)
        })
        .collect()
}

#[derive(Default)]
struct Seen<'c> {
    urls: BTreeSet<&'c str>,
    discovery: BTreeSet<&'c str>,
}

fn validate_issuer<'c>(errors: &mut ErrorList, path: &Path, issuer: &'c Value, seen: &mut Seen<'c>) {
    let (url, discovery) = (text(issuer, "url"), text(issuer, "discoveryURL"));
    let at = path.child("url");
    if url.is_empty() {
        errors.push(Error::required(at, ""));
    } else {
        let is_new = seen.urls.insert(url);
        validate_url(errors, &at, url, is_new);
    }
    if !discovery.is_empty() {
        let at = path.child("discoveryURL");
        if url.trim_end_matches('/') == discovery.trim_end_matches('/') {
            errors.push(Error::invalid(
                at.clone(),
                json!(discovery),
                "discoveryURL must be different from URL",
            ));
        }
        let is_new = seen.discovery.insert(discovery);
        validate_url(errors, &at, discovery, is_new);
    }
    validate_audiences(errors, path, issuer);
    let authority = text(issuer, "certificateAuthority");
    let is_certificate = CertificateDer::pem_slice_iter(authority.as_bytes()).any(|one| one.is_ok());
    if !authority.is_empty() && !is_certificate {
        errors.push(Error::invalid(
            path.child("certificateAuthority"),
            json!("<omitted>"),
            "data does not contain any valid RSA or ECDSA certificates",
        ));
    }
    let egress = text(issuer, "egressSelectorType");
    if !matches!(egress, "" | "controlplane" | "cluster") {
        errors.push(Error::invalid(
            path.child("egressSelectorType"),
            json!(egress),
            "egress selector must be either controlplane or cluster",
        ));
    }
}

fn validate_url(errors: &mut ErrorList, path: &Path, url: &str, is_new: bool) {
    let mut invalid = |why: String| errors.push(Error::invalid(path.clone(), json!(url), why));
    let parsed = match parse_reference(url) {
        Ok(parsed) => parsed,
        Err(why) => return invalid(why),
    };
    if parsed.scheme != "https" {
        invalid("URL scheme must be https".to_owned());
    }
    if parsed.user.is_some() {
        invalid("URL must not contain a username or password".to_owned());
    }
    if !parsed.raw_query.is_empty() {
        invalid("URL must not contain a query".to_owned());
    }
    if !parsed.fragment.is_empty() {
        invalid("URL must not contain a fragment".to_owned());
    }
    if !is_new {
        errors.push(Error::duplicate(path.clone(), &json!(url)));
    }
}

fn validate_audiences(errors: &mut ErrorList, path: &Path, issuer: &Value) {
    let audiences = texts(issuer, "audiences");
    let at = path.child("audiences");
    if audiences.is_empty() {
        let why = format!("at least one {} is required", at.as_str());
        errors.push(Error::required(at, why));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, audience) in audiences.iter().enumerate() {
        if audience.is_empty() {
            errors.push(Error::required(at.index(index), ""));
        }
        if !seen.insert(audience) {
            errors.push(Error::duplicate(at.index(index), &json!(audience)));
        }
    }
    let policy = text(issuer, "audienceMatchPolicy");
    let why = if audiences.len() > 1 {
        (policy != "MatchAny").then_some("audienceMatchPolicy must be MatchAny for multiple audiences")
    } else {
        (!matches!(policy, "" | "MatchAny"))
            .then_some("audienceMatchPolicy must be empty or MatchAny for single audience")
    };
    if let Some(why) = why {
        errors.push(Error::invalid(
            path.child("audienceMatchPolicy"),
            json!(policy),
            why,
        ));
    }
}

/// Compiles an expression with a boolean result, or a result of any type.
fn compile(
    errors: &mut ErrorList,
    path: Path,
    environment: &Environment,
    source: &str,
    is_boolean: bool,
) -> bool {
    let why = match environment.compile(source, Returns::Anything) {
        Ok(checked) if is_boolean && checked.result != Type::Bool => "must evaluate to bool".to_owned(),
        Ok(_) => return true,
        Err(why) => why,
    };
    errors.push(Error::invalid(path, json!(source), why));
    false
}

/// Validates the claim rules; returns true if a rule uses `claims.email_verified`.
fn validate_claim_rules(errors: &mut ErrorList, path: &Path, jwt: &Value) -> bool {
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    let mut verifies_email = false;
    for (index, rule) in list(jwt, "claimValidationRules").iter().enumerate() {
        let at = path.index(index);
        let (claim, expression) = (text(rule, "claim"), text(rule, "expression"));
        match (claim, expression) {
            ("", "") => errors.push(Error::required(at, EITHER)),
            (claim, "") => {
                let message = text(rule, "message");
                if !message.is_empty() {
                    let why = "may not be specified when claim is set";
                    errors.push(Error::invalid(at.child("message"), json!(message), why));
                }
                if !claims.insert(claim) {
                    errors.push(Error::duplicate(at.child("claim"), &json!(claim)));
                }
            }
            ("", expression) => {
                let value = text(rule, "requiredValue");
                if !value.is_empty() {
                    let why = "may not be specified when expression is set";
                    errors.push(Error::invalid(at.child("requiredValue"), json!(value), why));
                }
                let at = at.child("expression");
                if !expressions.insert(expression) {
                    errors.push(Error::duplicate(at, &json!(expression)));
                    continue;
                }
                let compiles = compile(errors, at, claims_environment(), expression, true);
                verifies_email |= compiles && uses_claim(expression, "email_verified");
            }
            (claim, _) => errors.push(Error::invalid(at, json!(claim), NOT_BOTH)),
        }
    }
    verifies_email
}

fn validate_mappings(errors: &mut ErrorList, path: &Path, jwt: &Value, verifies_email: bool) {
    let mappings = jwt.get("claimMappings").unwrap_or(&Value::Null);
    let null = Value::Null;
    let mapping = |field: &str| mappings.get(field).unwrap_or(&null);
    let user = mapping("username");
    let expression = text(user, "expression");
    let at = path.child("username");
    let is_mapped = validate_mapping(errors, &at, user, true, true);
    for (field, has_prefix) in [("groups", true), ("uid", false)] {
        validate_mapping(errors, &path.child(field), mapping(field), false, has_prefix);
    }
    let extra = list(mappings, "extra");
    validate_extra(errors, &path.child("extra"), extra);
    let sources = extra.iter().map(|extra| text(extra, "valueExpression"));
    let mut sources = sources.chain([expression]);
    if is_mapped
        && uses_claim(expression, "email")
        && !verifies_email
        && !sources.any(|source| uses_claim(source, "email_verified"))
    {
        let why = "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression";
        errors.push(Error::invalid(at.child("expression"), json!(expression), why));
    }
}

/// Validates a mapping; returns true if its expression is valid.
fn validate_mapping(
    errors: &mut ErrorList,
    path: &Path,
    mapping: &Value,
    is_required: bool,
    has_prefix: bool,
) -> bool {
    let (claim, expression) = (text(mapping, "claim"), text(mapping, "expression"));
    match (claim, expression) {
        ("", "") => {
            if is_required {
                errors.push(Error::required(path.clone(), EITHER));
            }
            false
        }
        (_, "") => {
            let prefix = mapping.get("prefix").filter(|prefix| !prefix.is_null());
            if has_prefix && prefix.is_none() {
                let why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.push(Error::required(path.child("prefix"), why));
            }
            false
        }
        ("", expression) => {
            let prefix = text(mapping, "prefix");
            if !prefix.is_empty() {
                let why = "may not be specified when expression is set";
                errors.push(Error::invalid(path.child("prefix"), json!(prefix), why));
            }
            compile(
                errors,
                path.child("expression"),
                claims_environment(),
                expression,
                false,
            )
        }
        _ => {
            errors.push(Error::invalid(path.clone(), json!(""), NOT_BOTH));
            false
        }
    }
}

fn validate_extra(errors: &mut ErrorList, path: &Path, extra: &[Value]) {
    let mut seen = BTreeSet::new();
    for (index, mapping) in extra.iter().enumerate() {
        let (key, source) = (text(mapping, "key"), text(mapping, "valueExpression"));
        let at = path.index(index).child("key");
        validate_key(errors, &at, key);
        if !key.is_empty() {
            if seen.contains(key) {
                errors.push(Error::duplicate(at.clone(), &json!(key)));
            }
            if key.chars().any(char::is_uppercase) {
                errors.push(Error::invalid(at.clone(), json!(key), "must be lowercase"));
            }
            seen.insert(key);
        }
        let at = path.index(index).child("valueExpression");
        if source.is_empty() {
            errors.push(Error::required(at, ""));
        } else {
            compile(errors, at, claims_environment(), source, false);
        }
    }
}

/// Validates a key, which must be a path that starts with a domain.
fn validate_key(errors: &mut ErrorList, path: &Path, key: &str) {
    if key.is_empty() {
        errors.push(Error::required(path.clone(), ""));
        return;
    }
    let Some((domain, rest)) = key
        .split_once('/')
        .filter(|(domain, rest)| !domain.is_empty() && !rest.is_empty())
    else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(Error::invalid(path.clone(), json!(key), why));
        return;
    };
    for fault in names::dns1123_subdomain(domain) {
        errors.push(Error::invalid(path.clone(), json!(domain), fault));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    if !rest.chars().all(is_allowed) {
        let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.push(Error::invalid(path.clone(), json!(rest), why));
    }
    let is_below = |own: &str| domain == own || domain.ends_with(&format!(".{own}"));
    if is_below("k8s.io") || is_below("kubernetes.io") {
        let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
        errors.push(Error::invalid(path.clone(), json!(key), why));
    }
}

fn validate_user_rules(errors: &mut ErrorList, path: &Path, jwt: &Value) {
    let mut seen = BTreeSet::new();
    for (index, rule) in list(jwt, "userValidationRules").iter().enumerate() {
        let at = path.index(index).child("expression");
        let source = text(rule, "expression");
        if source.is_empty() {
            errors.push(Error::required(at, ""));
        } else if !seen.insert(source) {
            errors.push(Error::duplicate(at, &json!(source)));
        } else {
            compile(errors, at, user_environment(), source, true);
        }
    }
}

fn validate_anonymous(errors: &mut ErrorList, config: &Value) {
    let anonymous = config.get("anonymous").unwrap_or(&Value::Null);
    let conditions = list(anonymous, "conditions");
    if !conditions.is_empty() && anonymous.get("enabled") != Some(&Value::Bool(true)) {
        // The real server prints the structs.
        let shown = conditions.iter().map(|one| json!({"Path": text(one, "path")}));
        errors.push(Error::invalid(
            Path::new("anonymous").child("conditions"),
            shown.collect(),
            "enabled should be set to true when conditions are defined",
        ));
    }
}

/// Returns true if an expression reads a claim: `claims.NAME` or `claims.?NAME`.
fn uses_claim(source: &str, name: &str) -> bool {
    source.match_indices("claims").any(|(at, word)| {
        let rest = source.get(at + word.len()..).unwrap_or_default().trim_start();
        let field = rest
            .strip_prefix('.')
            .map(|rest| rest.trim_start().trim_start_matches('?'));
        let after = field.and_then(|field| field.strip_prefix(name));
        after.is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    })
}
