//! Probes of containers that run as local processes.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::object::Object;

/// The time between probes until the first success.
const FIRST_PERIOD: Duration = Duration::from_millis(50);
/// The minimum time during which failures of a program that has just started do not count.
const FIRST_MIN: Duration = Duration::from_secs(1);

/// The periods and the thresholds of a probe.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    spec: Value,
    /// The host and the port.
    address: Option<(String, u16)>,
    pub(super) delay: Duration,
    pub(super) period: Duration,
    pub(super) failures: i64,
    pub(super) successes: i64,
}

// === impl Probe ===

impl Probe {
    /// Parses a probe of a container, such as `readinessProbe`.
    pub(super) fn read(container: &Value, field: &str, address: &str) -> Option<Self> {
        let spec = container.get(field).filter(|spec| spec.is_object())?;
        let seconds = |field: &str, default| {
            let seconds = spec.int(&format!("/{field}")).unwrap_or(default);
            Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
        };
        let handler = ["httpGet", "tcpSocket"]
            .iter()
            .find_map(|handler| spec.get(handler));
        let host = handler
            .map(|handler| handler.text("/host"))
            .filter(|host| !host.is_empty());
        let port = handler.and_then(|handler| port(container, handler.get("port")?));
        Some(Self {
            address: port.map(|port| (host.unwrap_or(address).to_owned(), port)),
            delay: seconds("initialDelaySeconds", 0),
            period: seconds("periodSeconds", 10).max(Duration::from_secs(1)),
            failures: spec.int("/failureThreshold").unwrap_or(3),
            successes: spec.int("/successThreshold").unwrap_or(1),
            spec: spec.clone(),
        })
    }

    /// Waits until the probe succeeds for the first time, or its initial delay has passed. Failures within the delay do
    /// not count. A kubelet always waits for the whole delay.
    pub(super) async fn first_success(&self) {
        let succeeds = async {
            while self.check().await.is_err() {
                tokio::time::sleep(FIRST_PERIOD).await;
            }
        };
        let _ = tokio::time::timeout(self.delay.max(FIRST_MIN), succeeds).await;
    }

    /// Probes once. Probes by `exec` and `grpc` succeed, because they have no container. A probe over HTTPS only
    /// connects.
    ///
    /// # Errors
    /// Returns the reason why a probe failed.
    pub(super) async fn check(&self) -> Result<(), String> {
        let Some((host, port)) = &self.address else {
            return Ok(());
        };
        let seconds = self.spec.int("/timeoutSeconds").unwrap_or(1).max(1);
        let timeout = Duration::from_secs(seconds.unsigned_abs());
        let checked = tokio::time::timeout(timeout, self.connect(host, *port)).await;
        checked.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
    }

    async fn connect(&self, host: &str, port: u16) -> Result<(), String> {
        let connected = TcpStream::connect((host, port)).await;
        let mut stream = connected.map_err(|error| format!("dial tcp {host}:{port}: {error}"))?;
        let Some(get) = self
            .spec
            .get("httpGet")
            .filter(|get| get.text("/scheme") != "HTTPS")
        else {
            return Ok(());
        };
        let path = match get.text("/path") {
            "" => "/",
            path => path,
        };
        let mut request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: kube-probe/1.36\r\nAccept: */*\r\nConnection: close\r\n"
        );
        for header in get.items("/httpHeaders") {
            request.push_str(&format!(
                "{}: {}\r\n",
                header.text("/name"),
                header.text("/value")
            ));
        }
        request.push_str("\r\n");
        let failed = |error: std::io::Error| format!("Get \"http://{host}:{port}{path}\": {error}");
        stream.write_all(request.as_bytes()).await.map_err(failed)?;
        let mut head = Vec::new();
        // The status code is in the first bytes: "HTTP/1.1 200".
        stream.take(12).read_to_end(&mut head).await.map_err(failed)?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let code = head.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
        match code {
            Some(200..400) => Ok(()),
            Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
            None => Err(format!(
                "Get \"http://{host}:{port}{path}\": malformed HTTP response {head:?}"
            )),
        }
    }
}

/// Returns the number of a port that is given by number or by name.
fn port(container: &Value, port: &Value) -> Option<u16> {
    let number = match port {
        Value::String(name) => {
            let mut ports = container.items("/ports").iter();
            let named = ports.find(|port| port.text("/name") == name);
            named.and_then(|port| port.int("/containerPort"))
        }
        number => number.as_i64(),
    };
    number.and_then(|number| u16::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_http_probe_reads_the_status() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let container = json!({
            "ports": [{"name": "health", "containerPort": port}],
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}},
        });
        let probe = Probe::read(&container, "readinessProbe", "127.0.0.1").unwrap();
        assert!(Probe::read(&container, "livenessProbe", "127.0.0.1").is_none());
        let serve = async {
            for answer in [
                "HTTP/1.1 200 OK\r\n\r\n",
                "HTTP/1.1 503 Service Unavailable\r\n\r\n",
                "SMTP\r\n",
            ] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 256];
                let read = stream.read(&mut request).await.unwrap();
                assert!(request[..read].starts_with(b"GET /readyz HTTP/1.1\r\n"));
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        };
        let check = async {
            assert_eq!(probe.check().await, Ok(()));
            let refused = probe.check().await.unwrap_err();
            assert_eq!(refused, "HTTP probe failed with statuscode: 503");
            assert!(probe.check().await.is_err());
        };
        tokio::join!(serve, check);
        drop(listener);
        assert!(
            probe
                .check()
                .await
                .unwrap_err()
                .starts_with("dial tcp 127.0.0.1:")
        );
    }
}
