//! Tests that acknowledged writes survive a restart, regardless of how the process ended.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::connector;
use operator_apiserver::client::{Gvr, Patch};
use operator_apiserver::{ApiServer, ListenOptions};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn open(directory: &Path) -> ApiServer {
    ApiServer::builder().data_directory(directory).build().unwrap()
}

fn config_maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

#[tokio::test]
async fn objects_and_revisions_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path());
    let client = server.client();
    let kept = client
        .create(&config_maps(), "default", config_map("kept", "1"))
        .await
        .unwrap();
    client
        .create(&config_maps(), "default", config_map("gone", "1"))
        .await
        .unwrap();
    client
        .delete(&config_maps(), "default", "gone", Default::default())
        .await
        .unwrap();
    drop((client, server));

    let server = open(directory.path());
    let client = server.client();
    assert_eq!(client.get(&config_maps(), "default", "kept").await.unwrap(), kept);
    assert_eq!(
        client
            .get(&config_maps(), "default", "gone")
            .await
            .unwrap_err()
            .code,
        404
    );
    let next = client
        .create(&config_maps(), "default", config_map("next", "1"))
        .await
        .unwrap();
    let version = |object: &Value| {
        object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    assert!(version(&next) > version(&kept) + 2, "a revision was given twice");
}

#[tokio::test]
async fn custom_resources_are_served_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path());
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            }}}]},
    });
    let widgets = Gvr::new("example.com", "v1", "widgets");
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 3}});
    let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    server.client().create(&definitions, "", crd).await.unwrap();
    server.client().create(&widgets, "default", widget).await.unwrap();
    drop(server);

    let client = open(directory.path()).client();
    let widget = client.get(&widgets, "default", "a").await.unwrap();
    assert_eq!(widget["spec"]["size"], 3);
    let patch = Patch::Merge(json!({"spec": {"size": "three"}}));
    assert_eq!(
        client
            .patch(&widgets, "default", "a", None, patch)
            .await
            .unwrap_err()
            .code,
        422
    );
}

#[tokio::test]
async fn a_directory_in_use_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _server = open(directory.path());
    let error = ApiServer::builder()
        .data_directory(directory.path())
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("in use by another server"), "{error}");
}

#[tokio::test]
async fn a_kubeconfig_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut kubeconfig = None;
    for _ in 0..2 {
        let server = open(directory.path());
        let listener = server.listen(ListenOptions::default()).await.unwrap();
        let first = kubeconfig.get_or_insert_with(|| listener.kubeconfig()).clone();
        let stream = TcpStream::connect(listener.local_addr()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector(&first, b"http/1.1")
            .connect(name, stream)
            .await
            .unwrap();
        let request = b"GET /api/v1/namespaces/default HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        drop(stream);
        listener.shutdown().await;
    }
}

#[tokio::test]
async fn secret_files_are_readable_by_their_owner_only() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = open(&data);
    drop(server.listen(ListenOptions::default()).await.unwrap());
    for path in ["", "log-0", "pki", "pki/ca.key"] {
        let mode = std::fs::metadata(data.join(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{path}");
    }
}

/// The environment variable of the writer process, which prints each name and value after the server acknowledged it.
const WRITER: &str = "DATA_DIRECTORY_TEST_WRITER";

/// The environment variable with the size of the objects of the writer process, in bytes.
const WRITER_SIZE: &str = "DATA_DIRECTORY_TEST_WRITER_SIZE";

#[tokio::test]
async fn writer() {
    let Ok(directory) = std::env::var(WRITER) else {
        return;
    };
    let size = std::env::var(WRITER_SIZE).map_or(0, |size| size.parse().unwrap());
    let client = open(Path::new(&directory)).client();
    for round in 0_u64.. {
        let (name, value) = (format!("n{}", round % 50), round.to_string());
        let mut config_map = config_map(&name, &value);
        config_map["data"]["padding"] = "x".repeat(size).into();
        let written = match client.create(&config_maps(), "default", config_map.clone()).await {
            Err(status) if status.code == 409 => {
                client.update(&config_maps(), None, in_default(config_map)).await
            }
            created => created,
        };
        written.unwrap();
        println!("acknowledged {name} {value}");
    }
}

fn in_default(mut object: Value) -> Value {
    object["metadata"]["namespace"] = "default".into();
    object
}

/// Starts the writer with a directory and objects of `size` bytes, kills it after `lines` acknowledgements, and returns
/// all acknowledged values.
fn write_until_killed(directory: &Path, size: usize, lines: usize) -> BTreeMap<String, u64> {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer", "--nocapture"])
        .env(WRITER, directory)
        .env(WRITER_SIZE, size.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut acknowledged = BTreeMap::new();
    let mut read = 0;
    for line in BufReader::new(writer.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
    {
        // The test harness prints its own text before the first line.
        if let Some((_, said)) = line.split_once("acknowledged ")
            && let Some((name, value)) = said.split_once(' ')
            && let Ok(value) = value.parse()
        {
            acknowledged.insert(name.to_owned(), value);
            read += 1;
            if read == lines {
                writer.kill().unwrap();
            }
        }
    }
    writer.wait().unwrap();
    acknowledged
}

async fn check_acknowledged(directory: &Path, acknowledged: BTreeMap<String, u64>) {
    let client = open(directory).client();
    for (name, value) in acknowledged {
        let stored = client.get(&config_maps(), "default", &name).await.unwrap();
        let stored: u64 = stored["data"]["value"].as_str().unwrap().parse().unwrap();
        // The killed writer may have committed one value more than it printed.
        assert!(
            stored >= value,
            "{name}: {value} was acknowledged, {stored} is stored"
        );
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_sigkill_at_any_moment() {
    let directory = tempfile::tempdir().unwrap();
    for lines in [1, 7, 60, 200, 333, 1000] {
        let acknowledged = write_until_killed(directory.path(), 0, lines);
        assert!(acknowledged.len() >= lines.min(50));
        check_acknowledged(directory.path(), acknowledged).await;
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_sigkill_while_the_journal_is_compacted() {
    let directory = tempfile::tempdir().unwrap();
    // The journal is compacted when its log has 16 MiB, which is after 82 writes of this size.
    for lines in [83, 88, 100, 170, 400] {
        let acknowledged = write_until_killed(directory.path(), 200 << 10, lines);
        check_acknowledged(directory.path(), acknowledged).await;
    }
    let generation = std::fs::read_dir(directory.path()).unwrap().find_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_prefix("snapshot-")?.parse::<u64>().ok()
    });
    assert!(generation > Some(1), "{generation:?}");
}

/// The environment variable of a writer process that continues after errors and prints the result of each write.
const PERSISTENT_WRITER: &str = "DATA_DIRECTORY_TEST_PERSISTENT_WRITER";

#[tokio::test]
async fn persistent_writer() {
    let Ok(directory) = std::env::var(PERSISTENT_WRITER) else {
        return;
    };
    let client = open(Path::new(&directory)).client();
    for round in 0_u64.. {
        let name = format!("n{round}");
        let outcome = match client
            .create(&config_maps(), "default", config_map(&name, &"x".repeat(10_000)))
            .await
        {
            Ok(_) => "acknowledged".to_owned(),
            Err(status) => {
                std::thread::sleep(std::time::Duration::from_millis(5));
                format!("refused {}", status.message())
            }
        };
        println!("\n{name} {outcome}");
    }
}

#[tokio::test]
async fn writes_go_on_when_a_full_disk_has_space_again() {
    let directory = tempfile::tempdir().unwrap();
    // A limit of the file size simulates a full disk. The signal of the limit is ignored, so that writes fail.
    let mut writer = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -S -f 600; exec \"$0\" --exact persistent_writer --nocapture",
        ])
        .arg(std::env::current_exe().unwrap())
        .env(PERSISTENT_WRITER, directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut acknowledged = Vec::new();
    let (mut refused, mut after) = (0, 0);
    for line in BufReader::new(writer.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
    {
        let Some((name, outcome)) = line.split_once(' ').filter(|(name, _)| name.starts_with('n')) else {
            continue;
        };
        if outcome == "acknowledged" {
            acknowledged.push(name.to_owned());
            after += u32::from(refused > 0);
        } else if outcome.contains("cannot append to") {
            refused += 1;
        }
        if refused == 20 {
            let pid = writer.id().to_string();
            let raised = Command::new("prlimit")
                .args(["--fsize=unlimited", "--pid", &pid])
                .status()
                .unwrap();
            assert!(raised.success());
        }
        if after == 50 {
            writer.kill().unwrap();
        }
    }
    writer.wait().unwrap();
    assert!(
        refused >= 20 && after >= 50,
        "{refused} writes were refused, {after} came after"
    );
    let client = open(directory.path()).client();
    for name in acknowledged {
        client.get(&config_maps(), "default", &name).await.unwrap();
    }
}
