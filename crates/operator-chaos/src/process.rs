//! Operators in separate processes, in any language.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::FutureExt;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, HeaderValue};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use operator_apiserver::ServerIdentity;
use operator_controlplane::ProcessGroup;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::directory::Directory;
use crate::error::Error;
use crate::world::Operator;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The number of lines of the program's output in an error.
const LINES: usize = 5;

/// A program and the certificate of the server that it connects to.
struct Program {
    command: Vec<OsString>,
    acceptor: TlsAcceptor,
    /// The certificate as PEM.
    certificate: Vec<u8>,
}

/// Returns the operator that runs a command. The command gets the path of its kubeconfig in `KUBECONFIG`. Its requests
/// are sent with the client, and it is killed when the operator's future is dropped.
pub(crate) fn operator(command: Vec<OsString>) -> Result<Operator, Error> {
    let failed = |error: String| Error::Server(format!("certificate: {error}"));
    let identity = ServerIdentity::self_signed(&[Ipv4Addr::LOCALHOST.to_string()])
        .map_err(|error| failed(error.to_string()))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&identity.certificate).collect();
    let chain = chain.map_err(|error| failed(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|error| failed(error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| failed(error.to_string()))?;
    let program = Arc::new(Program {
        command,
        acceptor: TlsAcceptor::from(Arc::new(config)),
        certificate: identity.certificate,
    });
    Ok(Arc::new(move |client| {
        let program = program.clone();
        async move { program.run(client).await }.boxed_local()
    }))
}

// === impl Program ===

impl Program {
    /// Runs the program until it exits by itself, which is an error.
    async fn run(&self, client: Client) -> Result<(), String> {
        let directory = Directory::create().map_err(|error| error.to_string())?;
        let log = directory.path().join("log");
        let started = self.start(directory.path(), &log).await;
        // A crash drops the group, which kills every process in it.
        let (socket, _group, mut child) =
            started.map_err(|error| format!("cannot run {}: {error}", self.command_line()))?;
        let mut connections = JoinSet::new();
        let status = loop {
            tokio::select! {
                status = child.wait() => break status,
                accepted = socket.accept() => {
                    if let Ok((stream, _)) = accepted {
                        connections.spawn(serve(stream, self.acceptor.clone(), client.clone()));
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        };
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        Err(format!("{status}{}", last_lines(&log)))
    }

    async fn start(&self, directory: &Path, log: &Path) -> io::Result<(TcpListener, ProcessGroup, Child)> {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let kubeconfig = directory.join("kubeconfig");
        std::fs::write(&kubeconfig, self.kubeconfig(socket.local_addr()?))?;
        let output = File::create(log)?;
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("KUBECONFIG", &kubeconfig)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let group = ProcessGroup::start(Duration::ZERO)?;
        let child = group.spawn(&mut command)?;
        Ok((socket, group, child))
    }

    fn command_line(&self) -> String {
        let words = self.command.iter().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }

    fn kubeconfig(&self, address: SocketAddr) -> String {
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: chaos
  cluster:
    server: https://{address}
    certificate-authority-data: {authority}
contexts:
- name: chaos
  context: {{cluster: chaos, user: chaos, namespace: default}}
current-context: chaos
users:
- name: chaos
  user: {{token: chaos}}
",
            authority = BASE64_STANDARD.encode(&self.certificate),
        )
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, client: Client) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(move |request| forward(client.clone(), request));
    // A connection that a fault breaks ends with an error.
    let _closed = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn forward(client: Client, request: Request<Incoming>) -> Result<Response<Body>, BoxError> {
    let (mut parts, body) = request.into_parts();
    adapt(&mut parts.headers);
    let body = body.collect().await?.to_bytes();
    Ok(client.send(Request::from_parts(parts, Body::from(body))).await?)
}

/// Requests JSON without compression, which the faults of watches need, with the identity of the administrator.
fn adapt(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    headers.remove(ACCEPT_ENCODING);
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let is_binary = |form: &&str| form.contains("protobuf") || form.contains("cbor");
    let Some(accepted) = accepted.filter(|accepted| is_binary(accepted)) else {
        return;
    };
    let text: Vec<&str> = accepted.split(',').filter(|form| !is_binary(form)).collect();
    let value = HeaderValue::from_str(&text.join(","))
        .ok()
        .filter(|value| !value.is_empty())
        .unwrap_or(HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, value);
}

/// Returns the last lines of a file, after a colon.
fn last_lines(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    match last.is_empty() {
        true => String::new(),
        false => format!(": {}", last.join(" / ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_forms_are_not_asked_for() {
        let accepted = |value: &'static str| {
            let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(value))]);
            adapt(&mut headers);
            headers.get(ACCEPT).cloned()
        };
        let json = Some(HeaderValue::from_static("application/json"));
        assert_eq!(
            accepted("application/vnd.kubernetes.protobuf,application/json"),
            json
        );
        assert_eq!(accepted("application/vnd.kubernetes.protobuf"), json);
        assert_eq!(accepted("application/json"), json);
    }
}
