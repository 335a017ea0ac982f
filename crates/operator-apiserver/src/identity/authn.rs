//! Authentication: determines the [`User`] of a request.

mod anonymous;
mod bearer;
mod certificate;
mod impersonation;
mod jwt;
mod request_header;
mod token_webhook;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub(crate) use self::anonymous::Anonymous;
pub(crate) use self::bearer::{Authenticator, bearer_token};
pub(crate) use self::certificate::expiry;
pub(crate) use self::impersonation::{HEADER_PREFIX as IMPERSONATION_PREFIX, impersonate};
pub use self::jwt::{AuthenticationConfiguration, OidcOptions};
pub use self::request_header::FrontProxy;
pub use self::token_webhook::TokenWebhook;
use apimachinery::names;

/// The user of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    /// The uid; empty if the user has none.
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    /// Extra attributes, by a key such as `authentication.kubernetes.io/credential-id`.
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// The group whose members have all permissions.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of all authenticated users.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of all anonymous users.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
/// The extra field with the credential of the user.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The attribute that names the node of a token that is bound to a pod or a node.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

impl User {
    /// Returns the administrator, as which requests inside the process run.
    pub(crate) fn admin() -> Self {
        Self {
            name: "admin".to_owned(),
            groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Returns the user that requests the OpenAPI documents of extension API servers.
    pub(crate) fn aggregator() -> Self {
        Self {
            name: "system:aggregator".to_owned(),
            groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Returns a user with this name.
    pub(crate) fn named(name: String, groups: Vec<String>) -> Self {
        let mut user = Self {
            name,
            groups,
            ..Self::default()
        };
        user.join(AUTHENTICATED);
        user
    }

    /// Returns the user of requests over the network without credentials.
    pub(crate) fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Returns the user of a client certificate: the common name, with the organizations as groups.
    pub(crate) fn from_certificate(der: &[u8]) -> Option<Self> {
        certificate::user(der)
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    pub(crate) fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known == group)
    }

    fn join(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
    }

    /// Returns the user as an `authentication.k8s.io/v1` UserInfo.
    pub(crate) fn info(&self) -> Value {
        let mut info = Map::new();
        for (field, text) in [("username", &self.name), ("uid", &self.uid)] {
            if !text.is_empty() {
                info.insert(field.to_owned(), text.as_str().into());
            }
        }
        if !self.groups.is_empty() {
            info.insert("groups".to_owned(), self.groups.clone().into());
        }
        if !self.extra.is_empty() {
            let extra = self.extra.iter();
            let extra: Map<String, Value> = extra
                .map(|(key, values)| (key.clone(), values.clone().into()))
                .collect();
            info.insert("extra".to_owned(), extra.into());
        }
        info.into()
    }
}

/// Returns the name of the node if the user is a kubelet.
pub(crate) fn node_name(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix("system:node:")?;
    (user.is_in("system:nodes") && !name.is_empty()).then_some(name)
}

/// Returns the user name of a service account.
pub(crate) fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// Returns the namespace and the name if the user is a service account.
pub(crate) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let is_valid = names::dns1123_label(namespace).is_empty() && names::dns1123_subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}

/// Returns the groups of every service account of a namespace.
pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}
