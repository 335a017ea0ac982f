//! Tests that a hundred concurrent servers in one process are isolated from each other.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::connector;
use operator_apiserver::client::Gvr;
use operator_apiserver::{ApiServer, ListenOptions};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SERVERS: usize = 100;
const OBJECTS: usize = 20;

fn definition(number: usize) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "size": {"type": "integer", "minimum": number, "default": number},
                }}},
            }}}]},
    })
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Lists objects over HTTPS; returns their names.
async fn names(kubeconfig: &str, address: std::net::SocketAddr) -> Vec<String> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector(kubeconfig, b"http/1.1")
        .connect(name, stream)
        .await
        .unwrap();
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    // The server closes the connection without a TLS close message.
    let _ = stream.read_to_string(&mut answer).await;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let list: Value = serde_json::from_str(body).unwrap();
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Starts one server, uses it and stops it.
async fn live(number: usize) {
    let server = ApiServer::builder().build().unwrap();
    let listener = server.listen(ListenOptions::default()).await.unwrap();
    let client = server.client();
    let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let widgets = Gvr::new("example.com", "v1", "widgets");
    client.create(&definitions, "", definition(number)).await.unwrap();
    for index in 0..OBJECTS {
        let name = format!("w-{number}-{index:02}");
        let created = client
            .create(&widgets, "default", widget(&name, &json!({})))
            .await
            .unwrap();
        assert_eq!(created["spec"]["size"], number, "each has its own default");
        tokio::task::yield_now().await;
    }
    if let Some(less) = number.checked_sub(1) {
        let small = widget("small", &json!({"size": less}));
        let refused = client.create(&widgets, "default", small).await.unwrap_err();
        assert_eq!(refused.code, 422, "each has its own limit");
    }
    let listed = names(&listener.kubeconfig(), listener.local_addr()).await;
    let own: Vec<String> = (0..OBJECTS)
        .map(|index| format!("w-{number}-{index:02}"))
        .collect();
    assert_eq!(listed, own, "each has its own objects");
    listener.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_servers_live_side_by_side() {
    let servers: Vec<_> = (0..SERVERS).map(|number| tokio::spawn(live(number))).collect();
    for server in servers {
        server.await.unwrap();
    }
}
