//! Crashes: an operator that ends after any of its writes, before it hears that it was carried out, must come to the same
//! end when it is started again.

use std::fmt::{Debug, Display};
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;

use crate::env::{Builder, TestEnv};
use crate::error::Error;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The result of [`crash_after_each_write`].
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::{Api, Client};
/// use operator_envtest::{CrashError, TestEnv, crash_after_each_write};
///
/// /// Makes one more ConfigMap each time it is started.
/// async fn operator(client: Client) -> Result<(), kube::Error> {
///     let configs = Api::<ConfigMap>::default_namespaced(client);
///     let mut config = ConfigMap::default();
///     config.metadata.generate_name = Some("made-".to_owned());
///     configs.create(&Default::default(), &config).await?;
///     config.metadata.name = Some("done".to_owned());
///     configs.create(&Default::default(), &config).await?;
///     std::future::pending().await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let found = crash_after_each_write(TestEnv::builder, operator, async |env: &TestEnv| {
///     let configs = Api::<ConfigMap>::default_namespaced(env.client());
///     env.eventually(&configs, "done", |_| true).await?;
///     let all = configs.list(&Default::default()).await?.items;
///     let is_made = |config: &&ConfigMap| config.metadata.generate_name.is_some();
///     Ok(all.iter().filter(is_made).count())
/// });
/// let error = found.await.expect_err("it is not idempotent");
/// assert!(matches!(error, CrashError::Difference { number: 1, found, .. } if found == "3"));
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    /// An environment could not be started.
    #[error(transparent)]
    Env(#[from] Error),
    /// The scenario fails even if nothing happens to the operator.
    #[error("the scenario fails without a crash")]
    Walk(#[source] BoxError),
    /// The operator does not recover.
    #[error("the scenario fails after a crash following write {number} ({write})")]
    Recovery {
        /// The number of the last write, from 1.
        number: usize,
        /// The write, `METHOD path?query`.
        write: String,
        /// The error of the scenario.
        #[source]
        source: BoxError,
    },
    /// The operator came to another end.
    #[error(
        "the scenario ends differently after a crash following write {number} ({write}):\n{found}\ninstead of\n{expected}"
    )]
    Difference {
        /// The number of the last write, from 1.
        number: usize,
        /// The write, `METHOD path?query`.
        write: String,
        /// The result after the crash.
        found: String,
        /// The result without a crash.
        expected: String,
    },
}

/// Runs a scenario repeatedly, and crashes the operator once in each run: after its first write, after its second, and so on,
/// until a run has fewer writes. After the crash, the operator is restarted at once. Returns the writes after which it
/// crashed, as `METHOD path?query`.
///
/// * `env` creates the environment of each run, which is empty at first.
/// * `operator` runs the operator with the given client, until its future is dropped: that is the crash. The API server has
///   carried out the write, and the operator does not receive the response. Spawned tasks must end with the future, as
///   with `Manager::run_until` of operator-runtime; in any case, their client does nothing any more.
/// * `walk` does what a user does, waits until the operator has reacted, and returns the end state: names and contents,
///   without values that the API server generates, such as uids and times.
///
/// A reconciler that passes is idempotent: it compares the desired state with the current state, and does not depend on
/// events.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::api::{Api, ListParams, Patch, PatchParams};
/// use kube::{Client, ResourceExt};
/// use operator_envtest::{TestEnv, crash_after_each_write};
/// use serde_json::json;
///
/// /// Applies two ConfigMaps. With `create` and generated names, three would exist after a crash.
/// async fn operator(client: Client) -> Result<(), kube::Error> {
///     let configs: Api<ConfigMap> = Api::default_namespaced(client);
///     for name in ["first", "second"] {
///         let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
///         configs.patch(name, &PatchParams::apply("example"), &Patch::Apply(config)).await?;
///     }
///     std::future::pending().await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let crashes = crash_after_each_write(TestEnv::builder, operator, async |env: &TestEnv| {
///     let configs: Api<ConfigMap> = Api::default_namespaced(env.client());
///     env.eventually(&configs, "second", |_| true).await?;
///     let made = ListParams::default().fields("metadata.name!=kube-root-ca.crt");
///     let all = configs.list(&made).await?;
///     Ok(all.iter().map(ResourceExt::name_any).collect::<Vec<_>>())
/// })
/// .await?;
/// assert_eq!(crashes.len(), 2);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the scenario fails, or ends differently than without a crash.
pub async fn crash_after_each_write<O, R, E, W, T>(
    env: impl Fn() -> Builder,
    operator: O,
    walk: W,
) -> Result<Vec<String>, CrashError>
where
    O: Fn(Client) -> R,
    R: Future<Output = Result<(), E>>,
    E: Display,
    W: AsyncFn(&TestEnv) -> Result<T, BoxError>,
    T: PartialEq + Debug,
{
    let undisturbed = Life::new(None);
    let expected = walk_once(&env, &operator, &walk, &undisturbed)
        .await?
        .map_err(CrashError::Walk)?;
    let mut crashes = Vec::new();
    loop {
        let number = crashes.len() + 1;
        let life = Life::new(Some(number));
        let end = walk_once(&env, &operator, &walk, &life).await?;
        let Some(write) = life.last_write() else {
            // The write does not exist any more.
            end.map_err(CrashError::Walk)?;
            return Ok(crashes);
        };
        let found = end.map_err(|source| CrashError::Recovery {
            number,
            write: write.clone(),
            source,
        })?;
        if found != expected {
            let (found, expected) = (format!("{found:#?}"), format!("{expected:#?}"));
            return Err(CrashError::Difference {
                number,
                write,
                found,
                expected,
            });
        }
        crashes.push(write);
    }
}

/// Runs the scenario once in an environment of its own, in which the operator has one life, and then another one.
async fn walk_once<R, E, T>(
    env: impl Fn() -> Builder,
    operator: impl Fn(Client) -> R,
    walk: impl AsyncFn(&TestEnv) -> Result<T, BoxError>,
    life: &Life,
) -> Result<Result<T, BoxError>, CrashError>
where
    R: Future<Output = Result<(), E>>,
    E: Display,
{
    let env = env().start().await?;
    let lives = async {
        tokio::select! {
            ended = operator(life.client(&env.client())) => return ended,
            () = life.crash.notified() => {}
        }
        operator(env.client()).await
    };
    let end = tokio::select! {
        end = walk(&env) => end,
        ended = lives => Err(match ended {
            Ok(()) => "the operator ended by itself".into(),
            Err(error) => error.to_string().into(),
        }),
    };
    env.stop().await;
    Ok(end)
}

/// The life of an operator up to its crash, as its client sees it.
#[derive(Clone)]
struct Life {
    /// After which of its writes it ends; never if `None`.
    ends_after: Option<usize>,
    writes: Arc<Mutex<Writes>>,
    crash: Arc<Notify>,
}

#[derive(Default)]
struct Writes {
    count: usize,
    last: Option<String>,
}

// === impl Life ===

impl Life {
    fn new(ends_after: Option<usize>) -> Self {
        Self {
            ends_after,
            writes: Arc::default(),
            crash: Arc::default(),
        }
    }

    /// The write after which it crashed.
    fn last_write(&self) -> Option<String> {
        self.writes().last.clone()
    }

    fn writes(&self) -> std::sync::MutexGuard<'_, Writes> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client that dies with the operator.
    fn client(&self, client: &Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let (life, client) = (self.clone(), client.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (life, client) = (life.clone(), client.clone());
            async move { life.send(client, request).await }
        });
        Client::new(service, namespace)
    }

    async fn send(&self, client: Client, request: Request<Body>) -> kube::Result<Response<Body>> {
        let is_write = request.method() != Method::GET;
        let write = is_write.then(|| format!("{} {}", request.method(), request.uri()));
        self.ended().await;
        let answer = client.send(request).await?;
        if let Some(write) = write.filter(|_| answer.status().is_success()) {
            self.wrote(write);
        }
        self.ended().await;
        Ok(answer)
    }

    /// Counts a write that was carried out, which may be the last one.
    fn wrote(&self, write: String) {
        let mut writes = self.writes();
        writes.count += 1;
        if self.ends_after == Some(writes.count) {
            writes.last = Some(write);
            self.crash.notify_one();
        }
    }

    /// Never ready once the operator has crashed: the dead do not hear.
    async fn ended(&self) {
        if self.last_write().is_some() {
            std::future::pending::<()>().await;
        }
    }
}
