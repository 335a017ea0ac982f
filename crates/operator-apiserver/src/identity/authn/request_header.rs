//! Front proxies: proxies with a client certificate that name the user in request headers.

use std::collections::BTreeMap;

use apimachinery::go::{quote, url};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::{AUTHENTICATED, User};

/// The headers of front proxies: `--requestheader-*` of kube-apiserver.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FrontProxy {
    /// The authorities of the proxies' client certificates, in PEM.
    pub authorities: Vec<u8>,
    /// The allowed common names of proxies. Default: empty, which allows all.
    pub allowed_names: Vec<String>,
    /// The headers with the user name.
    pub username_headers: Vec<String>,
    /// The headers with the uid.
    pub uid_headers: Vec<String>,
    /// The headers with the groups.
    pub group_headers: Vec<String>,
    /// The prefixes of headers with extra attributes.
    pub extra_prefixes: Vec<String>,
}

impl FrontProxy {
    /// Returns options for the proxies of an authority, without headers.
    pub fn new(authorities: impl Into<Vec<u8>>) -> Self {
        Self {
            authorities: authorities.into(),
            ..Self::default()
        }
    }

    /// Returns the user in the headers of a proxy with this common name, and removes the headers. Returns `None` if the
    /// proxy is not allowed, or names no user.
    pub(crate) fn user(&self, proxy: &str, headers: &mut HeaderMap) -> Option<User> {
        if !self.allowed_names.is_empty() && !self.allowed_names.iter().any(|known| known == proxy) {
            return None;
        }
        let first = |names: &[String]| {
            let mut values = names.iter().filter_map(|name| headers.get(name)).map(text);
            values.find(|value| !value.is_empty())
        };
        let name = first(&self.username_headers)?;
        let uid = first(&self.uid_headers).unwrap_or_default();
        let groups = self
            .group_headers
            .iter()
            .flat_map(|name| headers.get_all(name))
            .map(text);
        let mut user = User {
            name,
            uid,
            groups: groups.collect(),
            extra: self.extra(headers),
        };
        user.join(AUTHENTICATED);
        let names = [&self.username_headers, &self.uid_headers, &self.group_headers];
        for name in names.into_iter().flatten() {
            headers.remove(name);
        }
        let extra: Vec<HeaderName> = headers
            .keys()
            .filter(|name| self.key(name).is_some())
            .cloned()
            .collect();
        for name in extra {
            headers.remove(name);
        }
        Some(user)
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            if let Some(key) = self.key(name) {
                extra.entry(key).or_default().push(text(value));
            }
        }
        extra
    }

    /// Returns the key of an extra attribute, or `None` for another header.
    fn key(&self, name: &HeaderName) -> Option<String> {
        let name = name.as_str();
        let mut prefixes = self
            .extra_prefixes
            .iter()
            .map(|prefix| prefix.to_ascii_lowercase());
        let key = prefixes.find_map(|prefix| name.strip_prefix(&prefix).map(str::to_owned))?;
        // A key with an invalid escape is kept as it is.
        Some(url::unescape_path(&key).unwrap_or(key))
    }

    /// Returns the data of the ConfigMap `extension-apiserver-authentication` about these proxies.
    pub(crate) fn config_map(&self) -> Map<String, Value> {
        let mut data = Map::new();
        let authorities = String::from_utf8_lossy(&self.authorities);
        data.insert("requestheader-client-ca-file".to_owned(), json!(authorities));
        for (key, names) in [
            ("requestheader-allowed-names", &self.allowed_names),
            ("requestheader-extra-headers-prefix", &self.extra_prefixes),
            ("requestheader-group-headers", &self.group_headers),
            ("requestheader-uid-headers", &self.uid_headers),
            ("requestheader-username-headers", &self.username_headers),
        ] {
            if !names.is_empty() || key != "requestheader-uid-headers" {
                let names: Vec<String> = names.iter().map(|name| quote(name)).collect();
                data.insert(key.to_owned(), json!(format!("[{}]", names.join(","))));
            }
        }
        data
    }
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}
