//! The file of `--authentication-config`, and the equivalent flags `--oidc-*`.

use apimachinery::object;
use serde_json::{Value, json};

use super::validation;
use crate::identity::strict::{self, Kind, Shape, Struct};

/// The accepted algorithms of an issuer that is configured in a file.
const ALGORITHMS: [&str; 9] = [
    "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512",
];

/// An `AuthenticationConfiguration`: the issuers of OpenID Connect tokens, and the paths of anonymous requests.
#[derive(Clone, Debug)]
pub struct AuthenticationConfiguration {
    config: Value,
    algorithms: Vec<String>,
}

/// The flags `--oidc-*` of kube-apiserver. Empty values are not set.
#[derive(Clone, Debug, Default)]
pub struct OidcOptions {
    /// The URL of the issuer.
    pub issuer_url: String,
    /// The audience that tokens must have.
    pub client_id: String,
    /// The certificate authorities of the issuer, in PEM. Default: those of the system.
    pub certificate_authority: String,
    /// The claim with the user name. Default: `sub`.
    pub username_claim: Option<String>,
    /// The prefix of user names; `-` means no prefix. Default: the URL of the issuer and `#`; no prefix for the claim
    /// `email`.
    pub username_prefix: String,
    /// The claim with the groups.
    pub groups_claim: String,
    /// The prefix of groups.
    pub groups_prefix: String,
    /// Claims that must have exactly these values.
    pub required_claims: Vec<(String, String)>,
    /// The accepted algorithms. Default: `RS256`.
    pub signing_algorithms: Vec<String>,
}

const KIND: Kind = Kind {
    group: "apiserver.config.k8s.io",
    versions: &["v1", "v1beta1", "v1alpha1"],
    shape: &Struct {
        name: "AuthenticationConfiguration",
        fields: &[
            ("jwt", Shape::List(&JWT)),
            ("anonymous", Shape::Object(&ANONYMOUS)),
        ],
    },
    scheme: "k8s.io/kubernetes/pkg/kubeapiserver/options/authentication.go:879",
};

const ANONYMOUS: Struct = Struct {
    name: "AnonymousAuthConfig",
    fields: &[
        ("enabled", Shape::Bool),
        ("conditions", Shape::List(&ANONYMOUS_CONDITION)),
    ],
};

const ANONYMOUS_CONDITION: Struct = Struct {
    name: "AnonymousAuthCondition",
    fields: &[("path", Shape::Text)],
};

const JWT: Struct = Struct {
    name: "JWTAuthenticator",
    fields: &[
        ("issuer", Shape::Object(&ISSUER)),
        ("claimValidationRules", Shape::List(&CLAIM_RULE)),
        ("claimMappings", Shape::Object(&MAPPINGS)),
        ("userValidationRules", Shape::List(&USER_RULE)),
    ],
};

const ISSUER: Struct = Struct {
    name: "Issuer",
    fields: &[
        ("url", Shape::Text),
        ("discoveryURL", Shape::Text),
        ("certificateAuthority", Shape::Text),
        ("audiences", Shape::Texts),
        ("audienceMatchPolicy", Shape::Text),
        ("egressSelectorType", Shape::Text),
    ],
};

const CLAIM_RULE: Struct = Struct {
    name: "ClaimValidationRule",
    fields: &[
        ("claim", Shape::Text),
        ("requiredValue", Shape::Text),
        ("expression", Shape::Text),
        ("message", Shape::Text),
    ],
};

const MAPPINGS: Struct = Struct {
    name: "ClaimMappings",
    fields: &[
        ("username", Shape::Object(&PREFIXED)),
        ("groups", Shape::Object(&PREFIXED)),
        ("uid", Shape::Object(&UNPREFIXED)),
        ("extra", Shape::List(&EXTRA)),
    ],
};

const PREFIXED: Struct = Struct {
    name: "PrefixedClaimOrExpression",
    fields: &[
        ("claim", Shape::Text),
        ("prefix", Shape::Text),
        ("expression", Shape::Text),
    ],
};

const UNPREFIXED: Struct = Struct {
    name: "ClaimOrExpression",
    fields: &[("claim", Shape::Text), ("expression", Shape::Text)],
};

const EXTRA: Struct = Struct {
    name: "ExtraMapping",
    fields: &[("key", Shape::Text), ("valueExpression", Shape::Text)],
};

const USER_RULE: Struct = Struct {
    name: "UserValidationRule",
    fields: &[("expression", Shape::Text), ("message", Shape::Text)],
};

pub(super) fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    object::text(value, &[field])
}

pub(super) fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    let list = value.get(field).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

pub(super) fn texts(value: &Value, field: &str) -> Vec<String> {
    let texts = list(value, field).iter().map(Value::as_str);
    texts.map(|text| text.unwrap_or_default().to_owned()).collect()
}

impl AuthenticationConfiguration {
    /// Parses and validates a file. Its issuers must not be among `service_account_issuers`, whose tokens belong to
    /// service accounts. `path` is the name of the file in errors.
    ///
    /// # Errors
    /// Returns an error with the text of kube-apiserver if the configuration is invalid.
    pub fn parse(text: &str, path: &str, service_account_issuers: &[String]) -> Result<Self, String> {
        let read = if text.trim().is_empty() {
            Err("empty config data".to_owned())
        } else {
            KIND.read(text)
        };
        let config = read.map_err(|why| {
            format!("failed to load authentication configuration from file {path:?}: {why}")
        })?;
        Self::new(
            config,
            ALGORITHMS.map(str::to_owned).to_vec(),
            service_account_issuers,
        )
    }

    /// Returns the configuration that is equivalent to the flags `--oidc-*`.
    ///
    /// # Errors
    /// Returns an error with the text of kube-apiserver if the flags are invalid.
    pub fn of_flags(options: &OidcOptions, service_account_issuers: &[String]) -> Result<Self, String> {
        if options.issuer_url.is_empty() || options.client_id.is_empty() {
            return Err(
                "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
                    .to_owned(),
            );
        }
        let claim = options.username_claim.as_deref().unwrap_or("sub");
        let prefix = match options.username_prefix.as_str() {
            "" if claim != "email" => format!("{}#", options.issuer_url),
            "-" => String::new(),
            prefix => prefix.to_owned(),
        };
        let mut mappings = json!({"username": {"claim": claim, "prefix": prefix}});
        if !options.groups_claim.is_empty() {
            mappings["groups"] = json!({"claim": options.groups_claim, "prefix": options.groups_prefix});
        }
        let rules = options.required_claims.iter();
        let rules: Vec<Value> = rules
            .map(|(claim, value)| json!({"claim": claim, "requiredValue": value}))
            .collect();
        let jwt = json!({
            "issuer": {
                "url": options.issuer_url, "audiences": [options.client_id],
                "certificateAuthority": options.certificate_authority,
            },
            "claimMappings": mappings, "claimValidationRules": rules,
        });
        let mut algorithms = options.signing_algorithms.clone();
        if algorithms.is_empty() {
            algorithms.push("RS256".to_owned());
        }
        if let Some(unknown) = algorithms.iter().find(|one| !ALGORITHMS.contains(&one.as_str())) {
            return Err(format!("oidc: unsupported signing alg: {unknown:?}"));
        }
        algorithms.sort();
        Self::new(json!({"jwt": [jwt]}), algorithms, service_account_issuers)
    }

    fn new(config: Value, algorithms: Vec<String>, disallowed: &[String]) -> Result<Self, String> {
        let errors = validation::validate(&config);
        if !errors.is_empty() {
            return Err(format!(
                "invalid authentication configuration: {}",
                strict::join(&errors)
            ));
        }
        let configuration = Self { config, algorithms };
        let errors = validation::overlap(&configuration, disallowed);
        if !errors.is_empty() {
            return Err(strict::join(&errors));
        }
        Ok(configuration)
    }

    /// Returns the `jwt` entries.
    pub(super) fn issuers(&self) -> impl Iterator<Item = &Value> {
        list(&self.config, "jwt").iter()
    }

    pub(super) fn algorithms(&self) -> &[String] {
        &self.algorithms
    }

    /// Returns true if the file configures anonymous requests, which excludes `--anonymous-auth`.
    pub fn has_anonymous(&self) -> bool {
        self.config.get("anonymous").is_some_and(|value| !value.is_null())
    }

    /// Returns the allowed paths of anonymous requests: `None` for all paths, an empty list for no paths.
    pub(crate) fn anonymous_paths(&self) -> Option<Vec<String>> {
        let anonymous = self.config.get("anonymous")?;
        if anonymous.get("enabled") != Some(&Value::Bool(true)) {
            return Some(Vec::new());
        }
        let conditions = list(anonymous, "conditions").iter();
        let paths: Vec<String> = conditions.map(|one| text(one, "path").to_owned()).collect();
        (!paths.is_empty()).then_some(paths)
    }
}
