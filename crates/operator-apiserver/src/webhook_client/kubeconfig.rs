//! The kubeconfigs of audit, authentication and authorization webhooks.

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
    /// The certificate and the key of the client, in PEM.
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The `Authorization` header.
    pub(super) authorization: Option<String>,
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
    Ok(Access {
        server: object::text(cluster, &["server"]).to_owned(),
        authorities: data(cluster, "certificate-authority")?.unwrap_or_default(),
        identity: certificate.zip(key),
        authorization: bearer.or(basic),
    })
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
