//! The credentials of `docker login` and `podman login`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

/// The name of Docker Hub in these files.
const DOCKER: &str = "https://index.docker.io/v1/";

/// Returns the credentials for a registry, if there are any. The error describes an invalid file.
pub(super) fn find(registry: &str) -> Result<Option<Credentials>, String> {
    for path in files() {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        let config: Value = serde_json::from_str(&text)
            .map_err(|error| format!("{} is not valid JSON: {error}", path.display()))?;
        if let Some(found) = of(&config, registry)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the paths of Docker's file, then Podman's.
fn files() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = variable("HOME").map(PathBuf::from).unwrap_or_default();
    let docker = variable("DOCKER_CONFIG").map_or_else(|| home.join(".docker"), PathBuf::from);
    let mut files = vec![docker.join("config.json")];
    files.extend(variable("REGISTRY_AUTH_FILE").map(PathBuf::from));
    files.extend(variable("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join("containers/auth.json")));
    files
}

fn of(config: &Value, registry: &str) -> Result<Option<Credentials>, String> {
    let names: &[&str] = if registry == "registry-1.docker.io" {
        &[DOCKER, "docker.io", "index.docker.io"]
    } else {
        &[registry]
    };
    for name in names {
        let helper = config["credHelpers"][*name].as_str().or_else(|| {
            let is_stored = config["auths"]
                .get(*name)
                .is_some_and(|entry| entry.get("auth").is_none());
            config["credsStore"].as_str().filter(|_| is_stored)
        });
        if let Some(helper) = helper {
            return ask(helper, name);
        }
        let entry = ["", "https://", "http://"]
            .iter()
            .find_map(|scheme| config["auths"].get(format!("{scheme}{name}")));
        if let Some(auth) = entry.and_then(|entry| entry["auth"].as_str()) {
            return decode(auth, name).map(Some);
        }
    }
    Ok(None)
}

fn decode(auth: &str, name: &str) -> Result<Credentials, String> {
    let wrong = || format!("the `auth` of {name} is not base64 of user:password");
    let bytes = BASE64_STANDARD.decode(auth.trim()).map_err(|_| wrong())?;
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    let (user, password) = text.split_once(':').ok_or_else(wrong)?;
    Ok(Credentials {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}

/// Calls a `docker-credential-…` program. An unknown registry is not an error.
fn ask(helper: &str, name: &str) -> Result<Option<Credentials>, String> {
    let program = format!("docker-credential-{helper}");
    let failed = |error: std::io::Error| format!("cannot run {program}: {error}");
    let mut child = Command::new(&program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(name.as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let text = |key: &str| answer[key].as_str().map(str::to_owned);
    Ok(text("Username")
        .zip(text("Secret"))
        .map(|(user, password)| Credentials { user, password }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_are_found_by_host() {
        let config = json!({"auths": {
            "quay.io": {"auth": BASE64_STANDARD.encode("me:secret:x")},
            "https://index.docker.io/v1/": {"auth": BASE64_STANDARD.encode("d:p")},
        }});
        let found = of(&config, "quay.io").unwrap().unwrap();
        assert_eq!((found.user.as_str(), found.password.as_str()), ("me", "secret:x"));
        assert_eq!(of(&config, "registry-1.docker.io").unwrap().unwrap().user, "d");
        assert_eq!(of(&config, "other.io"), Ok(None));
        let damaged = json!({"auths": {"quay.io": {"auth": "?"}}});
        assert!(of(&damaged, "quay.io").unwrap_err().contains("quay.io"));
    }
}
