//! Real `etcd` and `kube-apiserver` binaries, started for one test.
//!
//! The administrator is authenticated by a generated token. Both programs listen on 127.0.0.1 and keep their data in a
//! temporary directory.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use kube::Client;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::backend::{ProgramOptions, existing};
use crate::error::Error;

/// Maximum attempts to start the programs, because another process may take the free port.
const STARTS_MAX: usize = 5;
/// The error text for a program that exited immediately.
const ENDED: &str = "exited at once";

#[derive(Debug)]
pub(crate) struct Binaries {
    api_server: Child,
    etcd: Child,
    kubeconfig: String,
    options: ProgramOptions,
    _folder: Folder,
}

impl Binaries {
    pub(crate) async fn start(assets: &Path, options: ProgramOptions) -> Result<(Self, Client), Error> {
        let mut starts = 1;
        loop {
            match Self::start_once(assets, options).await {
                Err(Error::Binary { program, problem })
                    if starts < STARTS_MAX && problem.starts_with(ENDED) =>
                {
                    tracing::info!(program, problem, "Restarting the control plane");
                    starts += 1;
                }
                started => return started,
            }
        }
    }

    async fn start_once(assets: &Path, options: ProgramOptions) -> Result<(Self, Client), Error> {
        let folder = Folder::create()?;
        let etcd_url = format!("http://127.0.0.1:{}", free_port()?);
        let etcd = spawn(
            &program(assets, "etcd"),
            &etcd_arguments(&folder.0, &etcd_url, free_port()?),
            options,
        )?;
        let port = free_port()?;
        let token = random_text()?;
        write(
            &folder.0.join("tokens.csv"),
            &format!("{token},admin,admin,system:masters\n"),
        )?;
        write(&folder.0.join("service-account.key"), &service_account_key()?)?;
        let api_server = spawn(
            &program(assets, "kube-apiserver"),
            &api_server_arguments(&folder.0, &etcd_url, port),
            options,
        )?;
        let kubeconfig = kubeconfig(port, &token);
        let client = existing::client_of(&kubeconfig).await?;
        let mut binaries = Self {
            api_server,
            etcd,
            kubeconfig,
            options,
            _folder: folder,
        };
        binaries.ready(assets, &client).await?;
        Ok((binaries, client))
    }

    pub(crate) fn kubeconfig(&self) -> String {
        self.kubeconfig.clone()
    }

    /// Waits until the API server is ready.
    async fn ready(&mut self, assets: &Path, client: &Client) -> Result<(), Error> {
        let end = Instant::now() + self.options.start_timeout;
        loop {
            for (name, child) in [("etcd", &mut self.etcd), ("kube-apiserver", &mut self.api_server)] {
                if let Ok(Some(status)) = child.try_wait() {
                    return Err(failed(&program(assets, name), &format!("{ENDED}, with {status}")));
                }
            }
            let request = http_get("/readyz");
            if client.request_text(request).await.is_ok() {
                return Ok(());
            }
            if Instant::now() > end {
                let problem = format!("was not ready after {:?}", self.options.start_timeout);
                return Err(failed(&program(assets, "kube-apiserver"), &problem));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn stop(mut self) {
        end(&mut self.api_server, self.options.stop_timeout).await;
        end(&mut self.etcd, self.options.stop_timeout).await;
    }
}

fn http_get(path: &str) -> http::Request<Vec<u8>> {
    let mut request = http::Request::new(Vec::new());
    *request.uri_mut() = path.parse().unwrap_or_default();
    request
}

/// Asks a program to exit, and kills it after the timeout.
async fn end(child: &mut Child, timeout: Duration) {
    let Some(pid) = child.id() else { return };
    let asked = Command::new("kill").arg(pid.to_string()).status().await;
    if asked.is_err() || tokio::time::timeout(timeout, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

fn etcd_arguments(folder: &Path, url: &str, peer_port: u16) -> Vec<String> {
    vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
        "--unsafe-no-fsync=true".to_owned(),
    ]
}

fn api_server_arguments(folder: &Path, etcd_url: &str, port: u16) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        format!("--etcd-servers={etcd_url}"),
        format!("--cert-dir={}", folder.display()),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--service-account-issuer=https://127.0.0.1/".to_owned(),
        format!("--service-account-key-file={}", file("service-account.key")),
        format!(
            "--service-account-signing-key-file={}",
            file("service-account.key")
        ),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--allow-privileged=true".to_owned(),
    ]
}

/// Returns a kubeconfig without certificate verification: the self-signed certificate is acceptable on the loopback
/// interface.
fn kubeconfig(port: u16, token: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: envtest\n\
         clusters:\n- name: envtest\n  cluster:\n    server: https://127.0.0.1:{port}\n    insecure-skip-tls-verify: true\n\
         users:\n- name: admin\n  user:\n    token: {token}\n\
         contexts:\n- name: envtest\n  context:\n    cluster: envtest\n    user: admin\n    namespace: default\n"
    )
}

/// Returns the path of a program: the value of its variable, such as `TEST_ASSET_ETCD`, or a file in the directory.
fn program(assets: &Path, name: &str) -> PathBuf {
    let variable = format!("TEST_ASSET_{}", name.to_uppercase().replace('-', "_"));
    std::env::var_os(variable).map_or_else(|| assets.join(name), PathBuf::from)
}

fn spawn(program: &Path, arguments: &[String], options: ProgramOptions) -> Result<Child, Error> {
    let output = || match options.attach_output {
        true => Stdio::inherit(),
        false => Stdio::null(),
    };
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            failed(
                program,
                &format!("cannot be started ({error}): check KUBEBUILDER_ASSETS"),
            )
        })
}

fn failed(program: &Path, problem: &str) -> Error {
    Error::Binary {
        program: program.display().to_string(),
        problem: problem.to_owned(),
    }
}

fn free_port() -> Result<u16, Error> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    port.map(|address| address.port())
        .map_err(|error| failed(Path::new("127.0.0.1"), &format!("no free port: {error}")))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|error| failed(path, &format!("cannot be written: {error}")))
}

fn service_account_key() -> Result<String, Error> {
    let key = rcgen::KeyPair::generate();
    let key = key.map_err(|error| failed(Path::new("service-account.key"), &error.to_string()))?;
    Ok(key.serialize_pem())
}

/// Returns a random secret, taken from a new private key.
fn random_text() -> Result<String, Error> {
    let key = service_account_key()?;
    let body: String = key.lines().filter(|line| !line.starts_with('-')).collect();
    let letters: String = body
        .chars()
        .rev()
        .filter(char::is_ascii_alphanumeric)
        .take(32)
        .collect();
    Ok(letters)
}

/// A temporary directory, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn create() -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("envtest-{}", random_text()?));
        let made = std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| failed(&path, &format!("cannot be created: {error}")));
        made.map(|()| Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!(%error, "failed to remove the directory of a test");
        }
    }
}
