//! Tests the cost of ten thousand idle connections, and that other clients are served. It is the only test of its
//! process, so that the memory of the process can be measured.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod common;
mod memory;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::connector;
use operator_apiserver::{ApiServer, ListenOptions};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

const CONNECTIONS: u64 = 10_000;
/// The number of other files that the process needs.
const OTHER_FILES: u64 = 100;
/// The maximum memory of an idle connection.
const CONNECTION_BYTES_MAX: u64 = 64 * 1024;

/// Raises the limit of open files; returns the wanted number of connections, or fewer if the limit does not allow it.
fn connections() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    CONNECTIONS.min(files.saturating_sub(OTHER_FILES))
}

async fn connect(address: SocketAddr, kubeconfig: &str) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    connector(kubeconfig, b"http/1.1")
        .connect(name, stream)
        .await
        .unwrap()
}

/// Sends one request and reads its response, on a connection that stays open.
async fn get(stream: &mut TlsStream<TcpStream>) {
    let request = b"GET /api/v1/namespaces/default HTTP/1.1\r\nhost: h\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut bytes = [0; 2048];
    let read = stream.read(&mut bytes).await.unwrap();
    assert!(bytes[..read].starts_with(b"HTTP/1.1 200 "));
}

/// The environment variable of the client process, with the address and the number of connections. The process reads
/// the kubeconfig from its input, prints a line when all connections are open, and closes them at the end of the input.
const CLIENTS: &str = "IDLE_CONNECTIONS_TEST_CLIENTS";

async fn be_the_clients(wanted: &str) {
    let (address, count) = wanted.split_once(' ').unwrap();
    let (address, count) = (address.parse().unwrap(), count.parse().unwrap());
    connections();
    let mut input = std::io::stdin().lock();
    let mut kubeconfig = String::new();
    while !kubeconfig.ends_with("---\n") {
        input.read_line(&mut kubeconfig).unwrap();
    }
    let mut open = Vec::new();
    for index in 0..count {
        let mut stream = connect(address, &kubeconfig).await;
        // Half of the connections are used, the others never send anything.
        if index % 2 == 0 {
            get(&mut stream).await;
        }
        open.push(stream);
    }
    println!("\nopen");
    let _ = input.read_line(&mut kubeconfig);
}

fn start_clients(address: SocketAddr, count: u64, kubeconfig: &str) -> Child {
    let mut clients = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--ignored",
            "many_idle_connections_do_not_stop_others",
            "--nocapture",
        ])
        .env(CLIENTS, format!("{address} {count}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = clients.stdin.as_mut().unwrap();
    input.write_all(format!("{kubeconfig}---\n").as_bytes()).unwrap();
    clients
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> u64 {
    memory::memory_of("self", "VmRSS").unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: opens ten thousand connections"]
async fn many_idle_connections_do_not_stop_others() {
    if let Ok(wanted) = std::env::var(CLIENTS) {
        return be_the_clients(&wanted).await;
    }
    let count = connections();
    let server = ApiServer::builder().build().unwrap();
    let mut options = ListenOptions::default();
    // No connection is closed before the last one is open.
    options.timeouts.idle = Duration::from_secs(600);
    options.timeouts.header = Duration::from_secs(600);
    let listener = server.listen(options).await.unwrap();
    let kubeconfig = listener.kubeconfig();
    let before = resident();
    let mut clients = start_clients(listener.local_addr(), count, &kubeconfig);
    let output = BufReader::new(clients.stdout.take().unwrap());
    let opened =
        tokio::task::spawn_blocking(|| output.lines().map_while(Result::ok).any(|line| line == "open"));
    assert!(opened.await.unwrap(), "the clients ended");
    assert_eq!(listener.connections() as u64, count);

    let each = resident().saturating_sub(before) / count;
    let began = Instant::now();
    get(&mut connect(listener.local_addr(), &kubeconfig).await).await;
    println!(
        "{count} idle connections: {each} bytes each, a new client was answered in {:?}",
        began.elapsed()
    );
    assert!(each < CONNECTION_BYTES_MAX, "{each} bytes for each connection");

    clients.kill().unwrap();
    clients.wait().unwrap();
    let gone = async {
        while listener.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap();
    listener.shutdown().await;
}
