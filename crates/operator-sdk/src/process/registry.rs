//! A client of image registries (distribution API): pushes and pulls images with the user's credentials.

mod credentials;
mod pull;

pub(crate) use pull::files_of;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use self::credentials::Credentials;
use crate::failure::Hinted;
use crate::oci::reference::Reference;
use crate::oci::{Blob, Image, MANIFEST};

/// An error of pushing or pulling an image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistryError {
    #[error("cannot reach the registry {registry}: {reason}")]
    Unreachable { registry: String, reason: String },
    #[error("the registry {registry} rejected the credentials for {repository}")]
    Unauthorized { registry: String, repository: String },
    #[error("the registry {registry} rejected the {what}: {reason}")]
    Refused {
        registry: String,
        what: &'static str,
        reason: String,
    },
    #[error("the {what} of {image} is invalid: {reason}")]
    Invalid {
        image: String,
        what: &'static str,
        reason: String,
    },
    #[error("{0}")]
    Credentials(String),
}

impl Hinted for RegistryError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unreachable { .. } => {
                "check the name of the registry; a registry without TLS needs `--insecure`".to_owned()
            }
            Self::Unauthorized { registry, .. } => {
                format!(
                    "log in with `docker login {registry}` or `podman login {registry}`, whose credentials are used"
                )
            }
            Self::Refused { .. } => {
                "check the name of the image, that its repository exists, and that you have access to it"
                    .to_owned()
            }
            Self::Invalid { .. } => "build and push the image again".to_owned(),
            Self::Credentials(_) => {
                "correct ~/.docker/config.json, or name another directory in DOCKER_CONFIG".to_owned()
            }
        })
    }
}

type Http = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A repository of a registry.
pub(crate) struct Repository {
    client: Http,
    reference: Reference,
    scheme: &'static str,
    credentials: Option<Credentials>,
    /// The requested access: `pull` or `pull,push`.
    access: &'static str,
    /// The value of the header, after the registry has sent a challenge.
    authorization: Option<String>,
}

// === impl Repository ===

impl Repository {
    /// Opens a repository to push to.
    pub(crate) fn open(reference: &Reference, insecure: bool) -> Result<Self, RegistryError> {
        Self::open_for("pull,push", reference, insecure)
    }

    /// Opens a repository to pull from.
    pub(crate) fn open_to_pull(reference: &Reference, insecure: bool) -> Result<Self, RegistryError> {
        Self::open_for("pull", reference, insecure)
    }

    fn open_for(access: &'static str, reference: &Reference, insecure: bool) -> Result<Self, RegistryError> {
        let unreachable = |reason: String| RegistryError::Unreachable {
            registry: reference.registry.clone(),
            reason,
        };
        let tls = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .map_err(|error| unreachable(error.to_string()))?;
        let connector = tls.https_or_http().enable_http1().build();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            reference: reference.clone(),
            scheme: if insecure || reference.is_local() {
                "http"
            } else {
                "https"
            },
            credentials: credentials::find(&reference.registry).map_err(RegistryError::Credentials)?,
            access,
            authorization: None,
        })
    }

    /// Pushes the blobs that the registry lacks, then the manifest with the tag.
    pub(crate) async fn push(&mut self, image: &Image) -> Result<(), RegistryError> {
        for blob in [&image.layer, &image.config] {
            self.push_blob(blob).await?;
        }
        let path = format!("/manifests/{}", self.reference.tag);
        let body = Bytes::from(image.manifest.bytes.clone());
        let answer = self
            .send(Method::PUT, &self.url(&path), Some(MANIFEST), body)
            .await?;
        self.expect(answer, &[StatusCode::CREATED, StatusCode::OK], "manifest")
            .await?;
        Ok(())
    }

    async fn push_blob(&mut self, blob: &Blob) -> Result<(), RegistryError> {
        let there = self.url(&format!("/blobs/{}", blob.digest));
        let answer = self.send(Method::HEAD, &there, None, Bytes::new()).await?;
        if answer.status() == StatusCode::OK {
            return Ok(());
        }
        let begin = self.url("/blobs/uploads/");
        let answer = self.send(Method::POST, &begin, None, Bytes::new()).await?;
        let answer = self.expect(answer, &[StatusCode::ACCEPTED], "upload").await?;
        let location = answer
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        let location = self.absolute(location.unwrap_or_default());
        let separator = if location.contains('?') { '&' } else { '?' };
        let target = format!("{location}{separator}digest={}", blob.digest);
        let body = Bytes::from(blob.bytes.clone());
        let answer = self
            .send(Method::PUT, &target, Some("application/octet-stream"), body)
            .await?;
        self.expect(answer, &[StatusCode::CREATED], "blob").await?;
        Ok(())
    }

    fn url(&self, path: &str) -> String {
        let Reference {
            registry, repository, ..
        } = &self.reference;
        format!("{}://{registry}/v2/{repository}{path}", self.scheme)
    }

    fn absolute(&self, location: &str) -> String {
        if location.starts_with('/') {
            format!("{}://{}{location}", self.scheme, self.reference.registry)
        } else {
            location.to_owned()
        }
    }

    /// Sends a request. After a challenge, sends it again with credentials.
    async fn send(
        &mut self,
        method: Method,
        url: &str,
        form: Option<&str>,
        body: Bytes,
    ) -> Result<Response<Incoming>, RegistryError> {
        let answer = self.send_once(&method, url, form, body.clone()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let challenge = answer
            .headers()
            .get(WWW_AUTHENTICATE)
            .and_then(|value| value.to_str().ok());
        let challenge = challenge.unwrap_or_default().to_owned();
        self.authorization = Some(self.authorize(&challenge).await?);
        let answer = self.send_once(&method, url, form, body).await?;
        match answer.status() {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(self.unauthorized()),
            _ => Ok(answer),
        }
    }

    async fn send_once(
        &self,
        method: &Method,
        url: &str,
        form: Option<&str>,
        body: Bytes,
    ) -> Result<Response<Incoming>, RegistryError> {
        let mut request = Request::builder().method(method).uri(url);
        // A token is for the registry, not for the storage to which an upload may be redirected.
        let same_host = url.parse::<Uri>().is_ok_and(|uri| {
            uri.authority()
                .is_some_and(|there| there.as_str() == self.reference.registry)
        });
        if let Some(authorization) = self.authorization.as_deref().filter(|_| same_host) {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(form) = form {
            let is_read = method == Method::GET;
            request = request.header(if is_read { ACCEPT } else { CONTENT_TYPE }, form);
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| self.unreachable(&error))?;
        self.client
            .request(request)
            .await
            .map_err(|error| self.unreachable(&error))
    }

    /// Returns the `Authorization` header for a challenge: a token of the given server, or the password.
    async fn authorize(&self, challenge: &str) -> Result<String, RegistryError> {
        let (scheme, parameters) = challenge.split_once(' ').unwrap_or((challenge, ""));
        let basic = self.credentials.as_ref().map(|credentials| {
            let pair = format!("{}:{}", credentials.user, credentials.password);
            format!("Basic {}", BASE64_STANDARD.encode(pair))
        });
        if !scheme.eq_ignore_ascii_case("bearer") {
            return basic.ok_or_else(|| self.unauthorized());
        }
        let parameter = |name: &str| parameter(parameters, name);
        let realm = parameter("realm").ok_or_else(|| self.unauthorized())?;
        let scope = format!("repository:{}:{}", self.reference.repository, self.access);
        let service = parameter("service").unwrap_or_default();
        let url = format!("{realm}?service={}&scope={}", escaped(&service), escaped(&scope));
        let mut request = Request::get(&url);
        if let Some(basic) = &basic {
            request = request.header(AUTHORIZATION, basic);
        }
        let request = request
            .body(Full::new(Bytes::new()))
            .map_err(|error| self.unreachable(&error))?;
        let answer = self
            .client
            .request(request)
            .await
            .map_err(|error| self.unreachable(&error))?;
        if !answer.status().is_success() {
            return Err(self.unauthorized());
        }
        let body: Value = serde_json::from_slice(&self.body(answer).await?).unwrap_or_default();
        let token = body["token"].as_str().or_else(|| body["access_token"].as_str());
        let token = token.ok_or_else(|| self.unauthorized())?;
        Ok(format!("Bearer {token}"))
    }

    async fn expect(
        &self,
        answer: Response<Incoming>,
        wanted: &[StatusCode],
        what: &'static str,
    ) -> Result<http::response::Response<()>, RegistryError> {
        if wanted.contains(&answer.status()) {
            return Ok(answer.map(|_| ()));
        }
        Err(self.refusal(answer, what).await)
    }

    /// Returns the error for an error response.
    async fn refusal(&self, answer: Response<Incoming>, what: &'static str) -> RegistryError {
        if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&answer.status()) {
            return self.unauthorized();
        }
        let status = answer.status();
        let body = self.body(answer).await.unwrap_or_default();
        let tree: Value = serde_json::from_slice(&body).unwrap_or_default();
        let said = tree
            .pointer("/errors/0/message")
            .and_then(Value::as_str)
            .unwrap_or_default();
        RegistryError::Refused {
            registry: self.reference.registry.clone(),
            what,
            reason: format!("{status} {said}").trim_end().to_owned(),
        }
    }

    async fn body(&self, answer: Response<Incoming>) -> Result<Bytes, RegistryError> {
        let body = answer
            .into_body()
            .collect()
            .await
            .map_err(|error| self.unreachable(&error))?;
        Ok(body.to_bytes())
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> RegistryError {
        let cause = error
            .source()
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        RegistryError::Unreachable {
            registry: self.reference.registry.clone(),
            reason: format!("{error}{cause}"),
        }
    }

    fn unauthorized(&self) -> RegistryError {
        RegistryError::Unauthorized {
            registry: self.reference.registry.clone(),
            repository: self.reference.repository.clone(),
        }
    }
}

/// Returns the value of a parameter of a challenge, such as `realm="https://…"`.
fn parameter(parameters: &str, name: &str) -> Option<String> {
    let start = parameters.find(&format!("{name}=\""))? + name.len() + 2;
    let rest = parameters.get(start..)?;
    Some(rest.split('"').next().unwrap_or_default().to_owned())
}

/// Escapes text for the query of a URL.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_taken_apart() {
        let text =
            r#"realm="https://auth.example.com/token",service="registry.example.com",scope="a:b:pull""#;
        assert_eq!(
            parameter(text, "realm").unwrap(),
            "https://auth.example.com/token"
        );
        assert_eq!(parameter(text, "service").unwrap(), "registry.example.com");
        assert_eq!(parameter(text, "error"), None);
        assert_eq!(
            escaped("repository:a/b:pull,push"),
            "repository%3Aa%2Fb%3Apull%2Cpush"
        );
    }
}
