//! Replays the recorded behaviour of kube-apiserver and kube-controller-manager 1.36.2, without nodes.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of these tests fail as the tests do"
)]

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use operator_apiserver::{ApiServer, Body};
use operator_conformance::suite;
use operator_controlplane::{ControlPlane, Options};
use tower::Service;

/// A server and its controllers.
#[derive(Clone)]
struct Cluster {
    server: ApiServer,
    _control_plane: Arc<ControlPlane>,
}

impl Cluster {
    async fn start() -> Self {
        let server = ApiServer::builder().build().unwrap();
        let options = Options {
            nodes: 0,
            ..Options::default()
        };
        Self {
            _control_plane: Arc::new(ControlPlane::start(&server.client(), options)),
            server,
        }
    }
}

impl<B> Service<Request<B>> for Cluster
where
    ApiServer: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = <ApiServer as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.server.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.server.call(request)
    }
}

async fn check(category: &str) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let known = std::fs::read_to_string(tests.join("known_differences.txt")).unwrap();
    let outcome = suite::check(&tests.join("recorded"), category, &known, true, |_| {
        Cluster::start()
    })
    .await;
    outcome.unwrap_or_else(|complaints| panic!("{complaints}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn auth() {
    check("auth").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gc() {
    check("gc").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads() {
    check("workloads").await;
}
