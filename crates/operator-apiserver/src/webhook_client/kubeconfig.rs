//! The kubeconfigs of audit, authentication, authorization and admission webhooks.

use std::collections::BTreeMap;
use std::fs;

use apimachinery::object;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// The address and credentials of a server.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) server: String,
    /// The authorities of the server's certificate, in PEM.
    pub(super) authorities: Vec<u8>,
    pub(super) user: User,
}

/// Reads the current context of a kubeconfig; the context is optional if there is only one cluster. Paths are relative
/// to the working directory.
pub(super) fn read(text: &str) -> Result<Access, String> {
    let config = apimachinery::yaml::parse(text)?.value;
    let context = entry(&config, "contexts", object::text(&config, &["current-context"]));
    let context = context.and_then(|context| context.get("context"));
    let named = |field: &str| context.map_or("", |context| object::text(context, &[field]));
    let cluster = entry(&config, "clusters", named("cluster"));
    let cluster = cluster
        .and_then(|cluster| cluster.get("cluster"))
        .ok_or("it names no cluster")?;
    let nobody = Value::Null;
    let user = entry(&config, "users", named("user"));
    let user = user.and_then(|user| user.get("user")).unwrap_or(&nobody);
    Ok(Access {
        server: object::text(cluster, &["server"]).to_owned(),
        authorities: data(cluster, "certificate-authority")?.unwrap_or_default(),
        user: read_user(user)?,
    })
}

/// The credentials of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct User {
    /// The certificate and the key of the client, in PEM.
    identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The `Authorization` header.
    pub(super) authorization: Option<String>,
}

impl User {
    /// Returns the certificate and the key of the client, in PEM.
    pub(super) fn identity(&self) -> Option<(&[u8], &[u8])> {
        let identity = self.identity.as_ref();
        identity.map(|(chain, key)| (chain.as_slice(), key.as_slice()))
    }
}

fn read_user(user: &Value) -> Result<User, String> {
    let certificate = data(user, "client-certificate")?;
    let key = data(user, "client-key")?;
    let token = match object::text(user, &["token"]) {
        "" => match object::text(user, &["tokenFile"]) {
            "" => String::new(),
            path => read_file(path).map(|text| String::from_utf8_lossy(&text).trim().to_owned())?,
        },
        token => token.to_owned(),
    };
    let basic = match object::text(user, &["username"]) {
        "" => None,
        name => {
            let password = object::text(user, &["password"]);
            Some(format!(
                "Basic {}",
                BASE64_STANDARD.encode(format!("{name}:{password}"))
            ))
        }
    };
    let bearer = (!token.is_empty()).then(|| format!("Bearer {token}"));
    Ok(User {
        identity: certificate.zip(key),
        authorization: bearer.or(basic),
    })
}

/// The credentials for admission webhooks: the users of a kubeconfig, whose names are the hosts of webhooks.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct WebhookCredentials {
    users: BTreeMap<String, User>,
    /// The user of the current context.
    current: String,
}

impl std::fmt::Debug for WebhookCredentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&String> = self.users.keys().collect();
        formatter.debug_tuple("WebhookCredentials").field(&names).finish()
    }
}

impl WebhookCredentials {
    /// Reads a kubeconfig.
    ///
    /// # Errors
    /// The kubeconfig, or a file that it names, cannot be read.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let config = apimachinery::yaml::parse(text)?.value;
        let context = object::text(&config, &["current-context"]);
        let list = |field: &str| config.get(field).and_then(Value::as_array).into_iter().flatten();
        let named = list("contexts").find(|entry| object::text(entry, &["name"]) == context);
        let mut users = BTreeMap::new();
        for entry in list("users") {
            let user = read_user(entry.get("user").unwrap_or(&Value::Null))?;
            users.insert(object::text(entry, &["name"]).to_owned(), user);
        }
        Ok(Self {
            users,
            current: named
                .map_or("", |context| object::text(context, &["context", "user"]))
                .to_owned(),
        })
    }

    /// Returns the user for a host and a port; without credentials if there is none.
    pub(super) fn of(&self, host: &str, port: u16, is_service: bool) -> User {
        let with_port = format!("{host}:{port}");
        // A service has its port in the name only if it is not the default.
        let targets: &[&str] = match (is_service, port) {
            (true, 443) => &[host],
            (false, 443) => &[&with_port, host],
            _ => &[&with_port],
        };
        let found = targets.iter().find_map(|target| self.matching(target));
        let found = found.or_else(|| self.users.get("*"));
        let found = found.or_else(|| self.users.get(&self.current));
        found.cloned().unwrap_or_default()
    }

    /// Returns the user with the name of the target, or with that of a domain above it: `*.DOMAIN`.
    fn matching(&self, target: &str) -> Option<&User> {
        let domains = target.match_indices('.').filter_map(|(at, _)| target.get(at..));
        let names = std::iter::once(target.to_owned()).chain(domains.map(|domain| format!("*{domain}")));
        names.into_iter().find_map(|name| self.users.get(&name))
    }
}

/// Returns the entry with a name, or the only one.
fn entry<'c>(config: &'c Value, list: &str, name: &str) -> Option<&'c Value> {
    let entries = config.get(list)?.as_array()?;
    let named = entries
        .iter()
        .find(|entry| object::text(entry, &["name"]) == name);
    named.or_else(|| entries.first().filter(|_| entries.len() == 1))
}

/// Returns the content of `FIELD-data`, or of the file that `FIELD` names.
fn data(value: &Value, field: &str) -> Result<Option<Vec<u8>>, String> {
    let encoded = object::text(value, &[&format!("{field}-data")]);
    if !encoded.is_empty() {
        let decoded = BASE64_STANDARD.decode(encoded);
        return decoded
            .map(Some)
            .map_err(|error| format!("{field}-data: {error}"));
    }
    match object::text(value, &[field]) {
        "" => Ok(None),
        path => read_file(path).map(Some),
    }
}

fn read_file(path: &str) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))
}
