//! Impersonation: the `Impersonate-*` headers, and the permission of the requester.
//!
//! There are five modes, tried in turn. The constrained modes make two checks: the requester may make the request while
//! it impersonates (`impersonate-on:MODE:VERB`), and it may impersonate this user (`impersonate:MODE`). The last mode
//! checks `impersonate` for each part of the user. See KEP-5284.

use std::borrow::Cow;
use std::collections::BTreeMap;

use apimachinery::go::{quote, url};
use apimachinery::names;
use http::HeaderMap;

use super::{
    AUTHENTICATED, MASTERS, NODE_NAME, UNAUTHENTICATED, User, service_account, service_account_groups,
};
use crate::identity::authz::{self, Attributes, Authorizer};
use crate::status::{self, Status};

/// The prefix of all headers of an impersonated user.
pub(crate) const HEADER_PREFIX: &str = "impersonate-";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Returns the impersonated user; `request` has the impersonation headers.
///
/// # Errors
/// Returns an error if the headers have parts of a user but no user name, or the requester may not impersonate the
/// user.
pub(crate) async fn impersonate(
    authorizer: &Authorizer,
    headers: &HeaderMap,
    request: &Attributes<'_>,
) -> Result<Option<User>, Status> {
    if !headers
        .keys()
        .any(|name| name.as_str().starts_with(HEADER_PREFIX))
    {
        return Ok(None);
    }
    let Some(wanted) = wanted(headers)? else {
        return Ok(None);
    };
    let mut first_refusal = None;
    for mode in MODES.iter().filter(|mode| (mode.fits)(&wanted, request.user)) {
        match mode.check(authorizer, &wanted, request).await {
            Ok(user) => return Ok(Some(user)),
            Err(refusal) => first_refusal = first_refusal.or(Some(refusal)),
        }
    }
    Err(first_refusal.unwrap_or_else(|| status::plain("all impersonation modes failed")))
}

/// Returns the user in the headers, without any additions.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            let key = url::unescape_path(key).unwrap_or_else(|| key.to_owned());
            extra.entry(key).or_default().push(text(value));
        }
    }
    let wanted = User {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: headers.get_all("impersonate-group").iter().map(text).collect(),
        extra,
    };
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if has_only_a_name(&wanted) {
        return Ok(None);
    }
    let printed = go_syntax(&wanted);
    Err(status::bad_request(format!(
        "requested {printed} without impersonating a user name"
    )))
}

/// Formats a user as Go prints its struct.
fn go_syntax(user: &User) -> String {
    let texts = |texts: &[String]| {
        let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
        format!("{{{}}}", quoted.join(", "))
    };
    let groups = if user.groups.is_empty() {
        "(nil)".to_owned()
    } else {
        texts(&user.groups)
    };
    let extra: Vec<String> = user
        .extra
        .iter()
        .map(|(key, values)| format!("{}:[]string{}", quote(key), texts(values)))
        .collect();
    let extra = if extra.is_empty() {
        "(nil)".to_owned()
    } else {
        format!("{{{}}}", extra.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:[]string{groups}, Extra:map[string][]string{extra}}}",
        quote(&user.name),
        quote(&user.uid)
    )
}

/// A mode of impersonation.
struct Mode {
    /// The name of the mode; empty for the unconstrained mode.
    name: &'static str,
    /// Returns true if the mode is for this user (first) and this requester (second).
    fits: fn(&User, &User) -> bool,
}

const MODES: [Mode; 5] = [
    Mode {
        name: ASSOCIATED_NODE,
        fits: |wanted, requester| {
            let node = node_of(&wanted.name).filter(|_| has_only_a_name(wanted));
            node.is_some_and(|node| runs_on(requester, node))
        },
    },
    Mode {
        name: "arbitrary-node",
        fits: |wanted, _| has_only_a_name(wanted) && node_of(&wanted.name).is_some(),
    },
    Mode {
        name: "serviceaccount",
        fits: |wanted, _| has_only_a_name(wanted) && service_account(&wanted.name).is_some(),
    },
    Mode {
        name: "user-info",
        fits: |wanted, _| node_of(&wanted.name).is_none() && service_account(&wanted.name).is_none(),
    },
    Mode {
        name: "",
        fits: |_, _| true,
    },
];
const ASSOCIATED_NODE: &str = "associated-node";

fn has_only_a_name(user: &User) -> bool {
    user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty()
}

fn node_of(user: &str) -> Option<&str> {
    let name = user.strip_prefix("system:node:")?;
    names::dns1123_subdomain(name).is_empty().then_some(name)
}

fn runs_on(requester: &User, node: &str) -> bool {
    let known = requester.extra.get(NODE_NAME).map(Vec::as_slice);
    service_account(&requester.name).is_some() && matches!(known, Some([only]) if only == node)
}

impl Mode {
    fn is_constrained(&self) -> bool {
        !self.name.is_empty()
    }

    /// Returns the impersonated user, with the groups that its name implies.
    async fn check(
        &self,
        authorizer: &Authorizer,
        wanted: &User,
        request: &Attributes<'_>,
    ) -> Result<User, Status> {
        if self.is_constrained() {
            let verb = format!("impersonate-on:{}:{}", self.name, request.verb);
            let on = Attributes {
                verb: &verb,
                ..*request
            };
            authorizer.check(&on).await?;
        }
        let verb = self.verb();
        let impersonation = Impersonation {
            requester: request.user,
            verb: &verb,
            mode: self,
        };
        authorizer.check(&impersonation.name(wanted)).await?;
        if !wanted.uid.is_empty() {
            let uid = impersonation.part(AUTHENTICATION, "uids", "", &wanted.uid);
            authorizer.check(&uid).await?;
        }
        self.check_groups(&impersonation, wanted, authorizer).await?;
        self.check_extra(&impersonation, wanted, authorizer).await?;
        Ok(self.complete(wanted))
    }

    fn verb(&self) -> Cow<'static, str> {
        if self.is_constrained() {
            format!("impersonate:{}", self.name).into()
        } else {
            "impersonate".into()
        }
    }

    /// Checks the groups. A large number of groups is first checked by one request.
    async fn check_groups(
        &self,
        impersonation: &Impersonation<'_>,
        wanted: &User,
        authorizer: &Authorizer,
    ) -> Result<(), Status> {
        let group = self.group();
        let refuse = |name: &str, why: &str| {
            Err(authz::refusal(
                &impersonation.part(group, "groups", "", name),
                why,
            ))
        };
        if self.is_constrained() {
            if wanted.is_in("") {
                return refuse("", "impersonating the empty string group is not allowed");
            }
            if wanted.is_in(MASTERS) {
                return refuse(MASTERS, "impersonating the system:masters group is not allowed");
            }
            let all = impersonation.part(group, "groups", "", "*");
            if wanted.groups.len() >= MANY && authorizer.check(&all).await.is_ok() {
                return Ok(());
            }
        }
        for name in &wanted.groups {
            authorizer
                .check(&impersonation.part(group, "groups", "", name))
                .await?;
        }
        Ok(())
    }

    async fn check_extra(
        &self,
        impersonation: &Impersonation<'_>,
        wanted: &User,
        authorizer: &Authorizer,
    ) -> Result<(), Status> {
        let values = || wanted.extra.values().flatten();
        if self.is_constrained() {
            if wanted.extra.contains_key("") {
                let why = "impersonating the empty string key in extra is not allowed";
                return Err(authz::refusal(
                    &impersonation.part(AUTHENTICATION, "userextras", "", ""),
                    why,
                ));
            }
            if values().any(String::is_empty) {
                let why = "impersonating the empty string value in extra is not allowed";
                return Err(authz::refusal(
                    &impersonation.part(AUTHENTICATION, "userextras", "", ""),
                    why,
                ));
            }
            let all = impersonation.part(AUTHENTICATION, "userextras", "*", "*");
            if values().count().max(wanted.extra.len()) >= MANY && authorizer.check(&all).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in &wanted.extra {
            for value in values {
                let part = impersonation.part(AUTHENTICATION, "userextras", key, value);
                authorizer.check(&part).await?;
            }
        }
        Ok(())
    }

    fn group(&self) -> &'static str {
        if self.is_constrained() { AUTHENTICATION } else { "" }
    }

    fn complete(&self, wanted: &User) -> User {
        let mut user = wanted.clone();
        if self.is_constrained() && node_of(&user.name).is_some() {
            user.groups = vec!["system:nodes".to_owned()];
        }
        if user.groups.is_empty()
            && let Some((namespace, _)) = service_account(&user.name)
        {
            user.groups = service_account_groups(namespace);
        }
        if user.is_anonymous() {
            user.join(UNAUTHENTICATED);
        } else if !user.is_in(UNAUTHENTICATED) {
            user.join(AUTHENTICATED);
        }
        user
    }
}

/// The number of groups or extra values from which a constrained mode first checks all of them by one request.
const MANY: usize = 4;

/// The common attributes of all checks of one impersonation.
struct Impersonation<'a> {
    requester: &'a User,
    verb: &'a str,
    mode: &'a Mode,
}

impl<'a> Impersonation<'a> {
    fn part(&self, group: &'a str, resource: &'a str, subresource: &'a str, name: &'a str) -> Attributes<'a> {
        Attributes {
            version: if group == AUTHENTICATION { "v1" } else { "" },
            subresource,
            name,
            ..Attributes::resource(self.requester, self.verb, group, resource)
        }
    }

    /// Returns the check for the name of a user, which may be a service account or a node.
    fn name(&self, wanted: &'a User) -> Attributes<'a> {
        let group = self.mode.group();
        if let Some(node) = node_of(&wanted.name).filter(|_| self.mode.is_constrained()) {
            let name = if self.mode.name == ASSOCIATED_NODE {
                "*"
            } else {
                node
            };
            return self.part(group, "nodes", "", name);
        }
        match service_account(&wanted.name) {
            Some((namespace, name)) => Attributes {
                namespace,
                ..self.part(group, "serviceaccounts", "", name)
            },
            None => self.part(group, "users", "", &wanted.name),
        }
    }
}
