//! Downloads of files over HTTP and HTTPS, through the proxy of the environment.

use http::header::LOCATION;
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use operator_connection::Connection;

use crate::failure::Hinted;

const USER_AGENT: &str = concat!("operator-sdk/", env!("CARGO_PKG_VERSION"));

/// The maximum size of a file, in bytes.
const SIZE_MAX: usize = 64 << 20;
/// The maximum number of redirects.
const REDIRECTS_MAX: usize = 5;

/// An error of downloading a file.
#[derive(Debug, thiserror::Error)]
#[error("cannot download {url}: {reason}")]
pub(crate) struct DownloadError {
    url: String,
    reason: String,
}

impl Hinted for DownloadError {
    fn hint(&self) -> Option<String> {
        Some(
            "check the address and the proxy (HTTPS_PROXY, NO_PROXY), or download the file by other means and give it \
             with `--manifests`"
                .to_owned(),
        )
    }
}

/// Returns the content of a text file.
pub(crate) async fn text(url: &str) -> Result<String, DownloadError> {
    let failed = |reason: String| DownloadError {
        url: url.to_owned(),
        reason,
    };
    let mut at: Uri = url
        .parse()
        .map_err(|error: http::uri::InvalidUri| failed(error.to_string()))?;
    for _ in 0..=REDIRECTS_MAX {
        let response = get(&at).await.map_err(failed)?;
        let (parts, body) = response.into_parts();
        if parts.status.is_redirection() {
            let location = parts.headers.get(LOCATION).and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| target(&at, location));
            at = next.ok_or_else(|| failed("a redirect has no valid location".to_owned()))?;
            continue;
        }
        if !parts.status.is_success() {
            return Err(failed(format!("the server answered {}", parts.status)));
        }
        let body = Limited::new(body, SIZE_MAX).collect().await;
        let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
        return String::from_utf8(body.to_vec()).map_err(|error| failed(error.to_string()));
    }
    Err(failed("too many redirects".to_owned()))
}

async fn get(at: &Uri) -> Result<http::Response<Body>, String> {
    let path = at.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    // A connection has the base of its server; the request has the path.
    let mut base = at.clone().into_parts();
    base.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    let base = Uri::from_parts(base).map_err(|error| error.to_string())?;
    let config = kube::Config::new(base);
    let connection =
        Connection::new(config, HeaderValue::from_static(USER_AGENT)).map_err(|error| innermost(&error))?;
    let request = Request::get(path).body(Body::empty());
    let request = request.map_err(|error| error.to_string())?;
    let response = connection.client().send(request).await;
    response.map_err(|error| innermost(&error))
}

/// Returns the absolute address of a redirect.
fn target(from: &Uri, location: &str) -> Option<Uri> {
    if !location.starts_with('/') {
        return location.parse().ok();
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = Some(location.parse().ok()?);
    Uri::from_parts(parts).ok()
}

fn innermost(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().unwrap_or(error).to_string()
}
