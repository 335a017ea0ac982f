//! An operator whose cluster is reachable only through a proxy.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::Kubeconfig;
use operator_apiserver::{ApiServer, ListenOptions};
use operator_runtime::cache::CacheOptions;
use operator_runtime::manager::ManagerOptions;
use operator_runtime::prelude::*;
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{config_map_in, in_time, run};
use crate::wire::Wire;

/// A name that no resolver knows.
const SERVER: &str = "api.cluster.invalid:6443";

/// Connects to the server under any name, and records the requests.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Proxy {
    async fn new(server: &str, is_socks: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<_>>>::default());
        let (server, log) = (server.to_owned(), asked.clone());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (server, log) = (server.clone(), log.clone());
                tokio::spawn(async move {
                    let asked = match is_socks {
                        true => socks(&mut client).await,
                        false => connect(&mut client).await,
                    };
                    log.lock().push(asked.unwrap());
                    let mut server = TcpStream::connect(server).await.unwrap();
                    // Either side may close it.
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { address, asked }
    }
}

/// Serves the beginning of a connection to an HTTP proxy; returns the credentials and the destination.
async fn connect(client: &mut TcpStream) -> std::io::Result<(String, String)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let destination = head
        .strip_prefix("CONNECT ")
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    let mut lines = head.lines();
    let credentials = lines.find_map(|line| line.strip_prefix("Proxy-Authorization: Basic "));
    let credentials = base64::engine::general_purpose::STANDARD
        .decode(credentials.unwrap_or_default())
        .unwrap();
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    Ok((String::from_utf8(credentials).unwrap(), destination))
}

/// Serves the beginning of a connection to a SOCKS 5 proxy with a password; see [`connect`].
async fn socks(client: &mut TcpStream) -> std::io::Result<(String, String)> {
    async fn counted(client: &mut TcpStream) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::from(client.read_u8().await?)];
        client.read_exact(&mut bytes).await?;
        Ok(bytes)
    }
    assert_eq!(client.read_u8().await?, 5);
    assert_eq!(counted(client).await?, [2], "with a password");
    client.write_all(&[5, 2]).await?;
    assert_eq!(client.read_u8().await?, 1);
    let (user, password) = (counted(client).await?, counted(client).await?);
    client.write_all(&[1, 0]).await?;
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    assert_eq!(request, [5, 1, 0, 3], "a connection to a name");
    let (name, port) = (counted(client).await?, client.read_u16().await?);
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ok((
        format!("{}:{}", text(user), text(password)),
        format!("{}:{port}", text(name)),
    ))
}

fn authority(wire: &Wire) -> String {
    wire.url().replace("http://", "")
}

fn kubeconfig(directory: &Path, proxy: &str) -> PathBuf {
    let path = directory.join("kubeconfig");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "far",
        "clusters": [{"name": "far", "cluster": {"server": format!("http://{SERVER}"), "proxy-url": proxy}}],
        "users": [{"name": "far", "user": {}}],
        "contexts": [{"name": "far", "context": {"cluster": "far", "user": "far"}}],
    });
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

fn operator(wire: &Wire, directory: &Path, proxy: &str) -> ManagerOptions {
    let mut args = wire.args(directory, &["--metrics-bind-address=0"]);
    args.kubeconfig = Some(kubeconfig(directory, proxy));
    ManagerOptions::from(&args)
}

#[tokio::test]
async fn operator_reads_watches_and_writes_through_its_proxy() {
    for (scheme, is_socks) in [("http", false), ("socks5", true)] {
        let wire = Wire::new().await;
        wire.up(ApiServer::builder().build().unwrap());
        let proxy = Proxy::new(&authority(&wire), is_socks).await;
        let directory = tempfile::tempdir().unwrap();
        let url = format!("{scheme}://user:pa%40ss@{}", proxy.address);
        let options = operator(&wire, directory.path(), &url);
        let manager = Manager::new("tester", options).await.unwrap();
        let running = run(&manager);
        let client = manager.client();
        in_time(client.apply(config_map_in("default", "far", "1")))
            .await
            .unwrap();
        let configs = in_time(client.list::<ConfigMap>().namespace("default"))
            .await
            .unwrap();
        assert_eq!(configs.len(), 1);
        running.end().await.unwrap();
        let asked = proxy.asked.lock().clone();
        let expected = ("user:pa@ss".to_owned(), SERVER.to_owned());
        assert!(
            !asked.is_empty() && asked.iter().all(|asked| *asked == expected),
            "{asked:?}"
        );
    }
}

/// Uses TLS and the credentials of a kubeconfig, without a proxy and through one.
#[tokio::test]
async fn operator_uses_tls_through_its_proxy() {
    let server = ApiServer::builder().build().unwrap();
    let mut options = ListenOptions::default();
    options.host_names = vec!["api.cluster.invalid".to_owned()];
    let listener = server.listen(options).await.unwrap();
    let address = listener.local_addr().to_string();
    for (scheme, is_socks) in [(None, false), (Some("http"), false), (Some("socks5h"), true)] {
        let proxy = Proxy::new(&address, is_socks).await;
        let kubeconfig = Kubeconfig::from_yaml(&listener.kubeconfig()).unwrap();
        let mut kubeconfig = serde_json::to_value(&kubeconfig).unwrap();
        if let Some(scheme) = scheme {
            let cluster = &mut kubeconfig["clusters"][0]["cluster"];
            cluster["server"] = format!("https://{SERVER}").into();
            cluster["proxy-url"] = format!("{scheme}://user:password@{}", proxy.address).into();
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let mut args = Wire::new()
            .await
            .args(directory.path(), &["--metrics-bind-address=0"]);
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        args.kubeconfig = Some(path);
        let manager = Manager::new("tester", &args).await.unwrap();
        let running = run(&manager);
        let config = config_map_in("default", "secure", scheme.unwrap_or("none"));
        in_time(manager.client().apply(config)).await.unwrap();
        let configs = in_time(manager.client().list::<ConfigMap>()).await.unwrap();
        let values = configs[0].data.clone().unwrap();
        assert_eq!(values["value"], scheme.unwrap_or("none"));
        running.end().await.unwrap();
        assert_eq!(proxy.asked.lock().is_empty(), scheme.is_none());
    }
    listener.shutdown().await;
}

#[tokio::test]
async fn other_cluster_is_reached_through_its_proxy() {
    let wire = Wire::new().await;
    wire.up(ApiServer::builder().build().unwrap());
    let proxy = Proxy::new(&authority(&wire), false).await;
    let home = crate::support::Bench::without_widgets();
    let manager = home.manager().await;
    let mut config = kube::Config::new(format!("http://{SERVER}").parse().unwrap());
    config.proxy_url = Some(format!("http://user@{}", proxy.address).parse().unwrap());
    let far = manager
        .add_cluster("far", config, CacheOptions::default())
        .unwrap();
    let running = run(&manager);
    in_time(far.client().apply(config_map_in("default", "far", "1")))
        .await
        .unwrap();
    assert_eq!(
        in_time(far.client().list::<ConfigMap>().namespace("default"))
            .await
            .unwrap()
            .len(),
        1
    );
    running.end().await.unwrap();
    let asked = proxy.asked.lock().clone();
    assert_eq!(asked.first(), Some(&("user:".to_owned(), SERVER.to_owned())));
    let counted = manager.metrics().to_text();
    assert!(
        counted.contains(r#"rest_client_requests_total{code="200",method="GET",host="far"}"#),
        "{counted}"
    );
}

#[tokio::test]
async fn unknown_proxy_scheme_is_an_error_before_the_start() {
    let wire = Wire::new().await;
    let directory = tempfile::tempdir().unwrap();
    let options = operator(&wire, directory.path(), "ftp://user:secret@proxy.example:21");
    let error = Manager::new("tester", options).await.unwrap_err().to_string();
    assert!(error.contains("\"proxy.example:21\" (proxy-url)"), "{error}");
}
