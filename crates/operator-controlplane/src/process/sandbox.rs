//! The local resources of a running pod ([`Sandbox`]): an address, and a private directory with its credentials.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use http::Request;
use http_body_util::BodyExt;
use operator_apiserver::client::Client;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::Processes;
use crate::object::Object;

/// The port of the pod's address that the control plane keeps bound, so that no other control plane on this machine
/// uses the address.
const ANCHOR_PORT: u16 = 64_999;
/// The maximum number of addresses to try.
const ADDRESSES_MAX: u32 = 64;

/// The mount path of the service account's credentials in containers.
const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// An address and a directory. Both are released when the value is dropped.
pub(super) struct Sandbox {
    client: Client,
    /// The address in the cluster.
    pub(super) pod_ip: Ipv4Addr,
    /// The local address: the cluster address with 127 instead of 10.
    pub(super) local_ip: Ipv4Addr,
    _anchor: UdpSocket,
    pub(super) directory: PathBuf,
}

// === impl Sandbox ===

impl Sandbox {
    /// Allocates an address in the range of a node, and creates the directory.
    ///
    /// # Errors
    /// Returns an error if no address is free, or the directory cannot be created.
    pub(super) fn create(
        processes: &Processes,
        client: &Client,
        pod: &Value,
        address: impl Fn(u32) -> String,
    ) -> Result<Self, String> {
        let (pod_ip, local_ip, anchor) = allocate(address)?;
        client.route_pod(IpAddr::V4(pod_ip), Some(IpAddr::V4(local_ip)));
        let directory = processes.0.directory.join("pods").join(pod.uid());
        let sandbox = Self {
            client: client.clone(),
            pod_ip,
            local_ip,
            _anchor: anchor,
            directory,
        };
        let mut builder = fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&sandbox.directory);
        made.map_err(|error| format!("cannot create {}: {error}", sandbox.directory.display()))?;
        Ok(sandbox)
    }

    /// Writes the credentials of the service account and a kubeconfig that refers to them. Returns the path of the
    /// kubeconfig; `None` if no container mounts the credentials.
    ///
    /// # Errors
    /// Returns an error if no token is issued, or a file cannot be written.
    pub(super) async fn write_credentials(
        &self,
        processes: &Processes,
        pod: &Value,
    ) -> Result<Option<PathBuf>, String> {
        let containers = pod.items("/spec/containers").iter();
        let mut mounts = containers.flat_map(|container| container.items("/volumeMounts"));
        if !mounts.any(|mount| mount.text("/mountPath") == MOUNT) {
            return Ok(None);
        }
        let token = token(processes, pod).await?;
        let file = |name: &str| self.directory.join(name);
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": {
                "server": processes.0.url,
                "certificate-authority": file("ca.crt"),
            }}],
            "users": [{"name": "pod", "user": {"tokenFile": file("token")}}],
            "contexts": [{"name": "pod", "context": {
                "cluster": "cluster", "user": "pod", "namespace": pod.namespace(),
            }}],
            "current-context": "pod",
        });
        let path = file("kubeconfig");
        let contents = [
            ("ca.crt", processes.0.authority.as_str()),
            ("namespace", pod.namespace()),
            ("token", &token),
            ("kubeconfig", &kubeconfig.to_string()),
        ];
        for (name, content) in contents {
            let written = write_private(&file(name), content);
            written.map_err(|error| format!("cannot write {}: {error}", file(name).display()))?;
        }
        Ok(Some(path))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.client.route_pod(IpAddr::V4(self.pod_ip), None);
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn allocate(address: impl Fn(u32) -> String) -> Result<(Ipv4Addr, Ipv4Addr, UdpSocket), String> {
    let start = u32::try_from(RandomState::new().hash_one(0) % 65_000).unwrap_or_default();
    let mut failure = String::new();
    for number in (0..ADDRESSES_MAX).map(|step| start + step * 97) {
        let Ok(pod) = address(number).parse::<Ipv4Addr>() else {
            continue;
        };
        let [_, b, c, d] = pod.octets();
        let local = Ipv4Addr::new(127, b, c, d);
        match UdpSocket::bind((local, ANCHOR_PORT)) {
            Ok(anchor) => return Ok((pod, local, anchor)),
            Err(error) => failure = format!("cannot use the address {local}: {error}"),
        }
    }
    Err(failure)
}

/// Replaces a file atomically, because operators may read it at any time.
fn write_private(path: &Path, content: &str) -> io::Result<()> {
    let part = path.with_extension("part");
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)?;
    file.write_all(content.as_bytes())?;
    fs::rename(part, path)
}

/// Requests a token for the service account of a pod. The token is valid until the pod is deleted.
async fn token(processes: &Processes, pod: &Value) -> Result<String, String> {
    let account = pod.text("/spec/serviceAccountName");
    let path = format!(
        "/api/v1/namespaces/{}/serviceaccounts/{account}/token",
        pod.namespace()
    );
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            // Kubelets request this value. The server extends it to a year for clients that read the token only once.
            "expirationSeconds": 3607,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid()},
        },
    });
    let failed =
        |why: &dyn std::fmt::Display| format!("cannot get a token for the service account {account}: {why}");
    let request = Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string())
        .map_err(|error| failed(&error))?;
    let Ok(response) = processes.0.server.clone().oneshot(request).await;
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| failed(&error))?.to_bytes();
    let answer: Value = serde_json::from_slice(&body).map_err(|error| failed(&error))?;
    match answer.text("/status/token") {
        "" => Err(failed(&answer.text("/message"))),
        token => Ok(token.to_owned()),
    }
}
