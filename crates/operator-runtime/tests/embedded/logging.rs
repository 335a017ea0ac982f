//! The log of a running operator: messages of reconciles and warnings of the API server.

use std::io::Write;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResourceExt;
use kube::api::{Api, DynamicObject, PostParams};
use operator_apiserver::ApiServer;
use operator_runtime::Kind;
use operator_runtime::logging::{LogLevel, Logging};
use operator_runtime::prelude::*;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{Bench, Widget, WidgetSpec, in_time, run};
use crate::wire::Wire;

/// The written log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Returns the messages of the log.
    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn with(&self, message: &str) -> Vec<Value> {
        let mut lines = self.lines();
        lines.retain(|line| line["msg"] == message);
        lines
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn events_are_logged_while_developing() {
    let (log, everything) = (Log::default(), Log::default());
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let widget = bench.create("a", 1).await;
    for (log, level) in [
        (&log, LogLevel(LevelFilter::INFO)),
        (&everything, LogLevel(LevelFilter::DEBUG)),
    ] {
        let logging = Logging {
            level,
            ..Logging::default()
        };
        let _writing = tracing::subscriber::set_default(logging.subscriber(log.clone()));
        let event = manager.recorder().event(&widget);
        event.warning("TooSmall", "it is 1");
    }
    assert_eq!(log.with("Event"), Vec::<Value>::new());
    let told = everything.with("Event");
    assert_eq!((told.len(), &told[0]["level"]), (1, &json!("debug")));
    let about = ["type", "reason", "note", "object"].map(|field| &told[0][field]);
    assert_eq!(json!(about), json!(["Warning", "TooSmall", "it is 1", "a"]));
}

/// A reconciler that writes an object with an unknown field twice, and fails.
struct Careless;

impl KeyReconciler for Careless {
    async fn reconcile(&self, request: Request, ctx: KeyContext) -> Result<Action> {
        let kind = Kind::of::<ConfigMap>();
        for _ in 0..2 {
            let object: DynamicObject = serde_json::from_value(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"generateName": "made-", "namespace": "default"},
                "colour": "red",
            }))?;
            ctx.create((&kind, object)).await?;
        }
        Err(Error::terminal(format!("{} is not to my liking", request.name())))
    }
}

#[tokio::test]
async fn warnings_of_the_api_server_are_logged_once_and_errors_with_their_controller() {
    let log = Log::default();
    let _writing = tracing::subscriber::set_default(Logging::default().subscriber(log.clone()));
    let (wire, directory) = (Wire::new().await, tempfile::tempdir().unwrap());
    let server = ApiServer::builder().build().unwrap();
    let direct = kube::Client::new(server.clone(), "default");
    let crds = Api::all(direct.clone());
    crds.create(&PostParams::default(), &Widget::crd()).await.unwrap();
    let widgets: Api<Widget> = Api::default_namespaced(direct);
    let widget = Widget::new("a", WidgetSpec { size: 1 });
    widgets.create(&PostParams::default(), &widget).await.unwrap();
    wire.up(server);
    let args = wire.args(directory.path(), &[]);
    let manager = Manager::new("tester", &args).await.unwrap();
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), Careless))
        .unwrap();
    let running = run(&manager);
    in_time(async {
        while log.with("Reconciler error").is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.end().await.unwrap();

    let warnings = log.with("API server warning");
    assert_eq!(warnings.len(), 1, "{:?}", log.lines());
    assert_eq!(
        (&warnings[0]["level"], &warnings[0]["warning"]),
        (&json!("warn"), &json!(r#"unknown field "colour""#))
    );
    let errors = log.with("Reconciler error");
    let error = &errors[0];
    assert_eq!((errors.len(), &error["level"]), (1, &json!("error")));
    assert_eq!(error["error"], "a is not to my liking");
    let about = ["controller", "namespace", "name"].map(|field| &error[field]);
    assert_eq!(json!(about), json!(["widget", "default", "a"]));
    assert!(error["reconcileID"].is_string(), "{error}");
}
