//! Tests of watches over WebSockets, with the responses of a real API server (1.36).
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;
mod common;

use std::time::Duration;

use asking::post;
use operator_apiserver::{ApiServer, ListenOptions, Listener};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true";
const PATIENCE: Duration = Duration::from_secs(30);
/// The handshake of a client, and the key of its response.
const HANDSHAKE: &str = "connection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\norigin: http://localhost\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n";
const ACCEPTED: &str = "BACScCJPNqyz+UBoqMH89VmURoA=";

struct Target {
    server: ApiServer,
    listener: Listener,
    connector: TlsConnector,
}

impl Target {
    async fn new() -> Self {
        let server = ApiServer::builder().build().unwrap();
        let listener = server.listen(ListenOptions::default()).await.unwrap();
        let connector = common::connector(&listener.kubeconfig(), b"http/1.1");
        Self {
            server,
            listener,
            connector,
        }
    }

    /// Sends a request; returns the head of the response.
    async fn ask(&self, path: &str, headers: &str) -> (String, TlsStream<TcpStream>) {
        let stream = TcpStream::connect(self.listener.local_addr()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = self.connector.connect(name, stream).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        (String::from_utf8(head).unwrap(), stream)
    }

    async fn watch(&self) -> TlsStream<TcpStream> {
        let (head, stream) = self.ask(WATCH, HANDSHAKE).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        stream
    }

    async fn create(&self, name: &str) {
        let body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}});
        let path = "/api/v1/namespaces/default/configmaps";
        post(&self.server, path, body).await.is_done();
    }
}

/// Returns the next frame: its first byte and its payload.
async fn frame(stream: &mut TlsStream<TcpStream>) -> (u8, Vec<u8>) {
    let read = async {
        let kind = stream.read_u8().await.unwrap();
        let length = match stream.read_u8().await.unwrap() {
            126 => u64::from(stream.read_u16().await.unwrap()),
            127 => stream.read_u64().await.unwrap(),
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut payload).await.unwrap();
        (kind, payload)
    };
    tokio::time::timeout(PATIENCE, read).await.unwrap()
}

/// Reads until the server closes the connection, which it must do.
async fn rest(stream: &mut TlsStream<TcpStream>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    let _ = read.unwrap();
    bytes
}

#[tokio::test]
async fn each_event_is_a_message() {
    let target = Target::new().await;
    target.create("before").await;
    let (head, mut stream) = target.ask(WATCH, HANDSHAKE).await;
    let mut lines: Vec<&str> = head.lines().skip(1).filter(|line| !line.is_empty()).collect();
    lines.retain(|line| !line.starts_with("date: "));
    lines.sort_unstable();
    let accept = format!("sec-websocket-accept: {ACCEPTED}");
    assert_eq!(lines, ["connection: Upgrade", &accept, "upgrade: websocket"]);
    target.create("after").await;
    for name in ["before", "after"] {
        let (kind, payload) = frame(&mut stream).await;
        assert_eq!((kind, payload.last()), (0x81, Some(&b'\n')));
        let event: Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["metadata"]["name"], name);
    }
}

#[tokio::test]
async fn protobuf_is_sent_in_binary_messages() {
    let target = Target::new().await;
    target.create("one").await;
    let headers = format!("{HANDSHAKE}accept: application/vnd.kubernetes.protobuf\r\n");
    let (head, mut stream) = target.ask(WATCH, &headers).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let (kind, payload) = frame(&mut stream).await;
    assert_eq!(kind, 0x82);
    // The type of the event, followed by an envelope.
    assert_eq!(payload[..7], *b"\n\x05ADDED");
    assert!(payload.windows(4).any(|part| part == b"k8s\0"));
}

#[tokio::test]
async fn a_large_object_is_one_message() {
    let target = Target::new().await;
    let mut stream = target.watch().await;
    let body = json!({"metadata": {"name": "large"}, "data": {"k": "v".repeat(300_000)}});
    let path = "/api/v1/namespaces/default/configmaps";
    post(&target.server, path, body).await.is_done();
    let (kind, payload) = frame(&mut stream).await;
    assert_eq!(kind, 0x81);
    let event: Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(event["object"]["data"]["k"].as_str().unwrap().len(), 300_000);
}

#[tokio::test]
async fn wrong_handshakes_are_refused() {
    let target = Target::new().await;
    let without = |name: &str| {
        let lines = HANDSHAKE.lines().filter(|line| !line.starts_with(name));
        lines.map(|line| format!("{line}\r\n")).collect::<String>()
    };
    let with = |line: &str| format!("{HANDSHAKE}{line}\r\n");
    let cases = [
        (without("origin"), "403", ""),
        (format!("{}origin: null\r\n", without("origin")), "403", ""),
        (without("sec-websocket-key"), "400", "mismatch challenge/response"),
        (
            without("sec-websocket-version"),
            "400",
            "missing or bad WebSocket Version",
        ),
        (with("sec-websocket-protocol: a, b"), "400", ""),
    ];
    for (headers, code, body) in cases {
        let (head, mut stream) = target.ask(WATCH, &headers).await;
        assert_eq!(head.split(' ').nth(1), Some(code), "{headers}");
        let length = format!("content-length: {}\r\n", body.len());
        assert!(head.contains(&length), "{head}");
        let mut bytes = vec![0; body.len()];
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(bytes, body.as_bytes());
    }
    let (head, _) = target
        .ask(WATCH, &with("sec-websocket-protocol: v4.channel.k8s.io"))
        .await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("sec-websocket-protocol: v4.channel.k8s.io\r\n"));
    // Only a watch can be a WebSocket, and its own errors take precedence.
    let list = "/api/v1/namespaces/default/configmaps";
    assert!(target.ask(list, HANDSHAKE).await.0.starts_with("HTTP/1.1 200 "));
    let wrong = format!("{WATCH}&fieldSelector=x=y");
    assert!(target.ask(&wrong, HANDSHAKE).await.0.starts_with("HTTP/1.1 400 "));
}

#[tokio::test]
async fn clients_can_ping_and_close() {
    let target = Target::new().await;
    let mut stream = target.watch().await;
    stream.write_all(b"\x89\x82\0\0\0\0hi").await.unwrap();
    assert_eq!(frame(&mut stream).await, (0x8a, b"hi".to_vec()));
    stream.write_all(b"\x88\x82\0\0\0\0\x03\xe8").await.unwrap();
    assert_eq!(rest(&mut stream).await, b"\x88\x02\x03\xe8");
}

#[tokio::test]
async fn hostile_frames_end_their_connection_alone() {
    let target = Target::new().await;
    let mut other = target.watch().await;
    let cases: [(&[u8], &[u8]); 3] = [
        (b"\x81\x02hi", b"\x88\x02\x03\xea\x88\x02\x03\xe8"),
        (b"\x81\xff\0\0\x01\0\0\0\0\0\0\0\0\0hi", b"\x88\x02\x03\xe8"),
        (
            b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",
            b"\x88\x02\x03\xe8",
        ),
    ];
    for (bytes, end) in cases {
        let mut stream = target.watch().await;
        stream.write_all(bytes).await.unwrap();
        assert_eq!(rest(&mut stream).await, end);
    }
    // Data of any size is skipped.
    let mut stream = target.watch().await;
    let length = 16_u32 << 20;
    let head = [&b"\x82\xff\0\0\0\0"[..], &length.to_be_bytes(), &[0; 4]].concat();
    stream.write_all(&head).await.unwrap();
    for _ in 0..length >> 16 {
        stream.write_all(&[7; 1 << 16]).await.unwrap();
    }
    stream.write_all(b"\x89\x81\0\0\0\0x").await.unwrap();
    assert_eq!(frame(&mut stream).await, (0x8a, b"x".to_vec()));
    target.create("one").await;
    assert_eq!(frame(&mut stream).await.0, 0x81);
    assert_eq!(frame(&mut other).await.0, 0x81);
}

#[tokio::test]
async fn a_websocket_ends_with_its_timeout_and_with_the_server() {
    let target = Target::new().await;
    let (_, mut short) = target.ask(&format!("{WATCH}&timeoutSeconds=1"), HANDSHAKE).await;
    let mut long = target.watch().await;
    assert_eq!(rest(&mut short).await, b"\x88\x02\x03\xe8");
    target.server.shutdown();
    assert_eq!(rest(&mut long).await, b"\x88\x02\x03\xe8");
}
