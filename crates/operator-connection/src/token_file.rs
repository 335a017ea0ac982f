//! [`TokenFileLayer`] sends the token of a file that is renewed, such as the token of a pod's service account.
//!
//! kube reads the file again once a minute by the wall clock. Like client-go, this layer uses the monotonic clock, and
//! also reads the file again after a request that the API server did not authenticate.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use kube::config::AuthInfo;
use parking_lot::Mutex;
use tower::{Layer, Service};

use crate::ConnectionError;

/// Time for which a token is used without reading the file again.
const FRESH: Duration = Duration::from_secs(60);

/// A [`tower::Layer`] that sends the token of a file with each request.
#[derive(Clone, Debug)]
pub struct TokenFileLayer(Arc<File>);

/// The service of a [`TokenFileLayer`].
#[derive(Clone, Debug)]
pub struct TokenFile<S> {
    inner: S,
    file: Arc<File>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    last: Mutex<Token>,
}

#[derive(Clone, Debug)]
struct Token {
    header: HeaderValue,
    read: Instant,
    refused: bool,
}

// === impl TokenFileLayer ===

impl TokenFileLayer {
    /// Takes the token file out of `auth` and returns its layer, if there is one.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or has no token.
    pub(crate) fn take(auth: &mut AuthInfo) -> Result<Option<Self>, ConnectionError> {
        let has_password = auth.username.is_some() && auth.password.is_some();
        if auth.auth_provider.is_some() || has_password || auth.token.is_some() {
            return Ok(None);
        }
        let Some(path) = auth.token_file.take().map(PathBuf::from) else {
            return Ok(None);
        };
        let header = read(&path).map_err(|source| ConnectionError::TokenFile {
            path: path.clone(),
            source,
        })?;
        let last = Mutex::new(Token::new(header));
        Ok(Some(Self(Arc::new(File { path, last }))))
    }
}

impl<S> Layer<S> for TokenFileLayer {
    type Service = TokenFile<S>;

    fn layer(&self, inner: S) -> TokenFile<S> {
        let file = self.0.clone();
        TokenFile { inner, file }
    }
}

// === impl TokenFile ===

impl<S, B, R> Service<Request<B>> for TokenFile<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let file = self.file.clone();
        request.headers_mut().insert(AUTHORIZATION, file.header());
        let sent = Instant::now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                file.refused(sent);
            }
            Ok(answer)
        })
    }
}

// === impl File ===

impl File {
    fn header(&self) -> HeaderValue {
        let mut last = self.last.lock();
        if last.refused || last.read.elapsed() >= FRESH {
            match read(&self.path) {
                Ok(header) => *last = Token::new(header),
                Err(error) => {
                    // The token may be valid for longer than the file exists.
                    tracing::warn!(path = %self.path.display(), %error, "Failed to read the token file, using the last token");
                    *last = Token::new(last.header.clone());
                }
            }
        }
        last.header.clone()
    }

    /// Records that a request which was sent at that time was not authenticated.
    fn refused(&self, sent: Instant) {
        let mut last = self.last.lock();
        let is_older = last.read <= sent;
        last.refused |= is_older;
    }
}

// === impl Token ===

impl Token {
    fn new(header: HeaderValue) -> Self {
        Self {
            header,
            read: Instant::now(),
            refused: false,
        }
    }
}

fn read(path: &std::path::Path) -> std::io::Result<HeaderValue> {
    let token = std::fs::read_to_string(path)?;
    let invalid = |text: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, text.to_owned());
    if token.trim().is_empty() {
        return Err(invalid("it is empty"));
    }
    let header = HeaderValue::try_from(format!("Bearer {}", token.trim()));
    let mut header = header.map_err(|_| invalid("it is not a valid token"))?;
    header.set_sensitive(true);
    Ok(header)
}
