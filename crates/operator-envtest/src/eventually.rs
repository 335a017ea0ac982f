//! Assertions of [`TestEnv`] that wait for watch events instead of polling.

use std::fmt::{self, Debug};
use std::time::Duration;

use futures::StreamExt;
use kube::api::{ListParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::env::TestEnv;

/// An object did not reach the expected state in time. The message shows its last state.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// # use operator_envtest::TestEnv;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let env = TestEnv::builder().timeout(Duration::from_millis(50)).start().await?;
/// let pods = kube::Api::<Pod>::default_namespaced(env.client());
/// let error = env.eventually(&pods, "web", |_| true).await.unwrap_err();
/// assert_eq!(error.to_string(), "web was not as expected within 50ms; last seen: no such object");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct NotReached {
    what: String,
    /// The time limit as text, such as `within 10s`.
    when: String,
    last: String,
}

/// The text for an object that does not exist.
const GONE: &str = "no such object";

impl fmt::Display for NotReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, when, last } = self;
        write!(f, "{what} was not as expected {when}; last seen: {last}")
    }
}

impl std::error::Error for NotReached {}

impl TestEnv {
    /// Waits until an object exists and `wanted` returns true for it, and returns it.
    ///
    /// # Errors
    /// Returns [`NotReached`] with the last state of the object, after the [timeout](Self::timeout).
    ///
    /// ```
    /// # use operator_envtest::TestEnv;
    /// use k8s_openapi::api::core::v1::ServiceAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let env = TestEnv::start().await?;
    /// let accounts = kube::Api::<ServiceAccount>::default_namespaced(env.client());
    /// let account = env.eventually(&accounts, "default", |_| true).await?;
    /// assert_eq!(account.metadata.namespace.as_deref(), Some("default"));
    /// # Ok(()) }
    /// ```
    pub async fn eventually<K>(
        &self,
        api: &Api<K>,
        name: &str,
        wanted: impl Fn(&K) -> bool,
    ) -> Result<K, NotReached>
    where
        K: Resource<DynamicType: Debug> + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
    {
        let found = self
            .watch(api, name, |object| object.is_some_and(&wanted))
            .await?;
        found.ok_or_else(|| self.not_reached(name, "nothing".to_owned()))
    }

    /// Waits until an object is gone.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::api::{Api, DeleteParams, PostParams};
    /// # use operator_envtest::TestEnv;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let env = TestEnv::start().await?;
    /// # let mut config = ConfigMap::default();
    /// # config.metadata.name = Some("flags".to_owned());
    /// let configs = Api::<ConfigMap>::default_namespaced(env.client());
    /// configs.create(&PostParams::default(), &config).await?;
    /// configs.delete("flags", &DeleteParams::default()).await?;
    /// env.eventually_gone(&configs, "flags").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`NotReached`] with the last state of the object, after the [timeout](Self::timeout).
    pub async fn eventually_gone<K>(&self, api: &Api<K>, name: &str) -> Result<(), NotReached>
    where
        K: Resource<DynamicType: Debug> + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
    {
        self.watch(api, name, |object| object.is_none()).await.map(drop)
    }

    /// Waits until `wanted` returns true for the list of objects with the labels and fields of the parameters, and
    /// returns it, sorted by namespace and name.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use kube::api::{Api, ListParams};
    /// # use operator_envtest::TestEnv;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let env = TestEnv::start().await?;
    /// let namespaces = Api::<Namespace>::all(env.client());
    /// let system = ListParams::default().labels("kubernetes.io/metadata.name in (kube-system, kube-public)");
    /// let found = env.eventually_list(&namespaces, &system, |list| list.len() == 2).await?;
    /// assert_eq!(found[0].metadata.name.as_deref(), Some("kube-public"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`NotReached`] with the last list, after the [timeout](Self::timeout).
    pub async fn eventually_list<K>(
        &self,
        api: &Api<K>,
        parameters: &ListParams,
        wanted: impl Fn(&[K]) -> bool,
    ) -> Result<Vec<K>, NotReached>
    where
        K: Resource<DynamicType: Debug> + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
    {
        let mut list = Vec::new();
        let config = watcher::Config {
            label_selector: parameters.label_selector.clone(),
            field_selector: parameters.field_selector.clone(),
            ..watcher::Config::default()
        };
        let wait = async {
            let mut events = std::pin::pin!(watcher(api.clone(), config).default_backoff());
            let mut fresh = Vec::new();
            let mut is_complete = false;
            while let Some(event) = events.next().await {
                match event {
                    Ok(watcher::Event::Init) => fresh.clear(),
                    Ok(watcher::Event::InitApply(object)) => fresh.push(object),
                    Ok(watcher::Event::InitDone) => {
                        list = std::mem::take(&mut fresh);
                        is_complete = true;
                    }
                    Ok(watcher::Event::Apply(object)) => put(&mut list, object),
                    Ok(watcher::Event::Delete(object)) => list.retain(|other| !is_same(other, &object)),
                    Err(_) => continue,
                }
                list.sort_by_key(|object| (object.namespace(), object.name_any()));
                if is_complete && wanted(&list) {
                    return;
                }
            }
        };
        let reached = tokio::time::timeout(self.timeout(), wait).await;
        match reached {
            Ok(()) => Ok(list),
            Err(_) => {
                let shown: Vec<String> = list.iter().map(show).collect();
                Err(self.not_reached(
                    "the list",
                    format!("{} objects\n{}", shown.len(), shown.join("\n")),
                ))
            }
        }
    }

    /// Checks for `how_long` that an object exists and `wanted` returns true for it. A passing test takes this time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use k8s_openapi::api::core::v1::Namespace;
    /// # use operator_envtest::TestEnv;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let env = TestEnv::start().await?;
    /// let namespaces = kube::Api::<Namespace>::all(env.client());
    /// let stays = |namespace: &Namespace| namespace.metadata.deletion_timestamp.is_none();
    /// env.consistently(&namespaces, "default", Duration::from_millis(50), stays).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns [`NotReached`] with the first state of the object that fails the check.
    pub async fn consistently<K>(
        &self,
        api: &Api<K>,
        name: &str,
        how_long: Duration,
        wanted: impl Fn(&K) -> bool,
    ) -> Result<(), NotReached>
    where
        K: Resource<DynamicType: Debug> + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
    {
        let mut seen = false;
        let broken = async {
            let mut states = std::pin::pin!(watcher::watch_object(api.clone(), name).default_backoff());
            loop {
                match states.next().await {
                    Some(Ok(Some(object))) if wanted(&object) => seen = true,
                    Some(Ok(object)) => {
                        return object.map_or_else(|| GONE.to_owned(), |object| show(&object));
                    }
                    Some(Err(_)) => {}
                    None => std::future::pending().await,
                }
            }
        };
        let broken = tokio::time::timeout(how_long, broken).await;
        let last = match broken {
            Err(_) if seen => return Ok(()),
            Err(_) => "nothing".to_owned(),
            Ok(last) => last,
        };
        Err(NotReached {
            what: name.to_owned(),
            when: format!("all the time for {how_long:?}"),
            last,
        })
    }

    /// Reads, changes and writes an object, and retries after conflicts.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Namespace;
    /// # use operator_envtest::TestEnv;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let env = TestEnv::start().await?;
    /// let namespaces = kube::Api::<Namespace>::all(env.client());
    /// let changed = env.update(&namespaces, "default", |namespace| {
    ///     namespace.metadata.labels.get_or_insert_default().insert("tier".to_owned(), "test".to_owned());
    /// });
    /// assert_eq!(changed.await?.metadata.labels.unwrap()["tier"], "test");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the object does not exist, or the API server rejects the change.
    pub async fn update<K>(&self, api: &Api<K>, name: &str, change: impl Fn(&mut K)) -> Result<K, kube::Error>
    where
        K: Clone + DeserializeOwned + Serialize + Debug,
    {
        loop {
            let mut object = api.get(name).await?;
            change(&mut object);
            match api.replace(name, &PostParams::default(), &object).await {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                written => return written,
            }
        }
    }

    /// Reads, changes and writes the status of an object, and retries after conflicts. Use it to set a status that is
    /// normally set by a controller that does not run in the test.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use kube::api::{Api, PostParams};
    /// # use operator_envtest::{Controllers, TestEnv};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // No controller runs, so the test sets the status.
    /// let env = TestEnv::builder().controllers(Controllers::None).start().await?;
    /// let deployments = Api::<Deployment>::default_namespaced(env.client());
    /// # let web = serde_json::from_value(serde_json::json!({
    /// #     "metadata": {"name": "web"},
    /// #     "spec": {
    /// #         "selector": {"matchLabels": {"app": "web"}},
    /// #         "template": {
    /// #             "metadata": {"labels": {"app": "web"}},
    /// #             "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
    /// #         },
    /// #     },
    /// # }))?;
    /// deployments.create(&PostParams::default(), &web).await?;
    /// let web = env.update_status(&deployments, "web", |web| {
    ///     web.status.get_or_insert_default().replicas = Some(1);
    /// });
    /// assert_eq!(web.await?.status.and_then(|status| status.replicas), Some(1));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`TestEnv::update`].
    pub async fn update_status<K>(
        &self,
        api: &Api<K>,
        name: &str,
        change: impl Fn(&mut K),
    ) -> Result<K, kube::Error>
    where
        K: Clone + DeserializeOwned + Serialize + Debug,
    {
        loop {
            let mut object = api.get(name).await?;
            change(&mut object);
            match api.replace_status(name, &PostParams::default(), &object).await {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                written => return written,
            }
        }
    }

    async fn watch<K>(
        &self,
        api: &Api<K>,
        name: &str,
        wanted: impl Fn(Option<&K>) -> bool,
    ) -> Result<Option<K>, NotReached>
    where
        K: Resource<DynamicType: Debug> + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
    {
        let mut last = "nothing".to_owned();
        let wait = async {
            let mut states = std::pin::pin!(watcher::watch_object(api.clone(), name).default_backoff());
            loop {
                match states.next().await {
                    Some(Ok(object)) if wanted(object.as_ref()) => return object,
                    Some(Ok(object)) => {
                        last = object.as_ref().map_or_else(|| GONE.to_owned(), show);
                    }
                    Some(Err(error)) => last = format!("an error: {error}"),
                    None => std::future::pending().await,
                }
            }
        };
        let reached = tokio::time::timeout(self.timeout(), wait).await;
        reached.map_err(|_| self.not_reached(name, last))
    }

    fn not_reached(&self, what: &str, last: String) -> NotReached {
        NotReached {
            what: what.to_owned(),
            when: format!("within {:?}", self.timeout()),
            last,
        }
    }
}

fn put<K: Resource>(list: &mut Vec<K>, object: K) {
    match list.iter_mut().find(|other| is_same(&**other, &object)) {
        Some(slot) => *slot = object,
        None => list.push(object),
    }
}

fn is_same<K: Resource>(a: &K, b: &K) -> bool {
    a.namespace() == b.namespace() && a.name_any() == b.name_any()
}

/// Returns an object as indented JSON without its managed fields.
fn show<K: Resource + Serialize>(object: &K) -> String {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = value
        .get_mut("metadata")
        .and_then(|metadata| metadata.as_object_mut())
    {
        metadata.remove("managedFields");
    }
    serde_json::to_string_pretty(&value).unwrap_or_default()
}
