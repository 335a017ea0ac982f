//! Tests with their own images: each runs as a pod that gets the bundle, and prints its results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use futures::future::join_all;
use operator_controlplane::{Program, register};
use operator_olm::files::{self, Files};
use operator_olm::scorecard::{Outcome, State};
use serde_json::{Value, json};

use super::{ScorecardError, Test, words};
use crate::args::{PodSecurityArg, ScorecardArgs};
use crate::failure::Failure;
use crate::process::api::{Api, processes_directory};
use crate::process::cluster::{Cluster, ClusterError, ClusterOptions};
use crate::process::objects::text;
use crate::process::signal::Ends;
use crate::process::temporary::TemporaryDirectory;
use crate::report::Report;
use crate::run::deploy::DeployError;
use crate::run::olm::pod_fault;

/// The directories of a bundle that are passed to tests.
const PARTS: [&str; 3] = ["manifests/", "metadata/", "tests/"];
/// The directory of the bundle in a pod.
const BUNDLE: &str = "/bundle";
/// Maximum content of a ConfigMap, in bytes.
const PART_MAX: usize = 900_000;
/// The container of a test.
const TEST: &str = "scorecard-test";
/// The container that prints the files that a test has written.
const GATHER: &str = "scorecard-gather";

/// The outcomes of tests, by their index.
type Outcomes = BTreeMap<usize, Vec<Outcome>>;

/// Runs the tests that are not built in. Returns `None` after a signal.
pub(super) fn run(
    args: &ScorecardArgs,
    files: &Files,
    tests: &[Test],
    report: &Report,
) -> Result<Option<Outcomes>, Failure> {
    let programs = programs(args)?;
    crate::run::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        let cluster = match args.embedded {
            true => Some(embedded().await?),
            false => None,
        };
        let outcome = async {
            let (api, directory) = match &cluster {
                Some(cluster) => {
                    let api = Api::connect(cluster.kubeconfig()).await?;
                    (api, Some(cluster.programs().to_owned()))
                }
                None => {
                    let (kubeconfig, context) = (
                        args.cluster.kubeconfig.as_deref(),
                        args.cluster.context.as_deref(),
                    );
                    (
                        Api::infer(kubeconfig, context).await?,
                        processes_directory(kubeconfig, context)?,
                    )
                }
            };
            if !programs.is_empty() {
                let directory = directory.ok_or(ScorecardError::NoPrograms)?;
                for (image, path) in &programs {
                    register(&directory, image, &Program::new(path)).map_err(DeployError::from)?;
                }
            }
            let namespace = args
                .namespace
                .clone()
                .unwrap_or_else(|| api.namespace().to_owned());
            let mut scene = Scene::create(api, namespace, args, files, report).await?;
            scene.images = programs.iter().map(|(image, _)| image.clone()).collect();
            let outcomes = tokio::select! {
                outcomes = scene.run(tests) => Some(outcomes),
                () = ends.next() => None,
            };
            if args.skip_cleanup {
                report.progress(&format!("The objects have the label testrun={}", scene.name));
            } else {
                scene.clean().await;
            }
            Ok(outcomes)
        };
        let outcome = outcome.await;
        if let Some(cluster) = cluster {
            cluster.shutdown().await;
        }
        outcome
    })
}

async fn embedded() -> Result<Cluster, ClusterError> {
    Cluster::start(&ClusterOptions {
        port: None,
        data_directory: None,
        fsync: false,
        controllers: true,
        nodes: 1,
        olm: false,
        kubeconfig: None,
        audit: None,
    })
    .await
}

/// Returns the programs on this machine that run instead of images.
fn programs(args: &ScorecardArgs) -> Result<Vec<(String, PathBuf)>, ScorecardError> {
    let parse = |text: &String| {
        let (image, path) = text
            .rsplit_once('=')
            .ok_or_else(|| ScorecardError::Program(text.clone()))?;
        let path = std::fs::canonicalize(path).map_err(|_| ScorecardError::Program(text.clone()))?;
        Ok((image.to_owned(), path))
    };
    args.test_program.iter().map(parse).collect()
}

/// The namespace of the tests, with the bundle in ConfigMaps.
struct Scene<'a> {
    api: Api,
    args: &'a ScorecardArgs,
    report: &'a Report,
    core: String,
    /// The name of the first ConfigMap, which is also the label of all objects.
    name: String,
    volume: Value,
    /// The images in whose place programs of this machine run.
    images: Vec<String>,
}

impl<'a> Scene<'a> {
    async fn create(
        api: Api,
        namespace: String,
        args: &'a ScorecardArgs,
        files: &Files,
        report: &'a Report,
    ) -> Result<Self, Failure> {
        let core = format!("/api/v1/namespaces/{namespace}");
        let mut sources: Vec<Value> = Vec::new();
        let mut name = String::new();
        for part in parts(files) {
            let data: serde_json::Map<String, Value> = part
                .iter()
                .map(|(key, _, content)| (key.clone(), BASE64_STANDARD.encode(content).into()))
                .collect();
            let items: Vec<Value> = part
                .iter()
                .map(|(key, path, _)| json!({"key": key, "path": path}))
                .collect();
            let mut metadata =
                json!({"generateName": "scorecard-test-", "labels": {"app": "scorecard-test"}});
            if !name.is_empty() {
                metadata["labels"]["testrun"] = name.as_str().into();
            }
            let object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": data});
            let created = api.create(&format!("{core}/configmaps"), &object).await?;
            let created = text(&created, "/metadata/name").to_owned();
            if name.is_empty() {
                name.clone_from(&created);
                let label = json!({"metadata": {"labels": {"testrun": name}}});
                api.merge_patch(&format!("{core}/configmaps/{name}"), &label)
                    .await?;
            }
            sources.push(json!({"name": created, "items": items}));
        }
        let volume = match sources.as_slice() {
            [source] => json!({"name": "scorecard-bundle", "configMap": source}),
            sources => {
                let sources: Vec<Value> = sources
                    .iter()
                    .map(|source| json!({"configMap": source}))
                    .collect();
                json!({"name": "scorecard-bundle", "projected": {"sources": sources}})
            }
        };
        Ok(Self {
            api,
            args,
            report,
            core,
            name,
            volume,
            images: Vec::new(),
        })
    }

    /// Runs the stages in order. The tests of a parallel stage run at the same time.
    async fn run(&self, tests: &[Test]) -> Outcomes {
        let mut stages: BTreeMap<usize, Vec<(usize, &Test)>> = BTreeMap::new();
        for (index, test) in tests
            .iter()
            .enumerate()
            .filter(|(_, test)| test.built_in.is_none())
        {
            stages.entry(test.stage).or_default().push((index, test));
        }
        let mut outcomes = Outcomes::new();
        for stage in stages.into_values() {
            if stage.iter().any(|(_, test)| test.is_parallel) {
                let all = stage
                    .iter()
                    .map(|(index, test)| async move { (*index, self.test(test).await) });
                outcomes.extend(join_all(all).await);
            } else {
                for (index, test) in stage {
                    outcomes.insert(index, self.test(test).await);
                }
            }
        }
        outcomes
    }

    async fn test(&self, test: &Test) -> Vec<Outcome> {
        match self.attempt(test).await {
            Ok(outcomes) => outcomes,
            Err(failure) => vec![error(test, failure.message, String::new())],
        }
    }

    async fn attempt(&self, test: &Test) -> Result<Vec<Outcome>, Failure> {
        let pods = format!("{}/pods", self.core);
        let is_program = self.images.iter().any(|image| test.value["image"] == **image);
        let storage = match storage(test) {
            None => Storage::None,
            Some(_) if is_program => Storage::Local(TemporaryDirectory::create()?),
            Some(path) => Storage::Volume(path),
        };
        let pod = pod(self.args, &self.name, &self.volume, test, &storage);
        let pod = self.api.create(&pods, &pod).await?;
        let name = text(&pod, "/metadata/name").to_owned();
        self.report
            .progress(&format!("Running {} in pod {name}", words(&test.value).join(" ")));
        let mut latest = pod;
        let ended = self.api.follow(&pods, &name, |pod| {
            latest = pod?.clone();
            ["Succeeded", "Failed"]
                .contains(&text(&latest, "/status/phase"))
                .then_some(())
        });
        let ended = tokio::time::timeout(self.args.wait_time, ended).await;
        let log = format!("{pods}/{name}/log?container={TEST}");
        if ended.is_err() {
            let fault = pod_fault(&latest)
                .map(|fault| format!(": {fault}"))
                .unwrap_or_default();
            let message = format!(
                "pod {name} has not finished after {} s{fault}",
                self.args.wait_time.as_secs()
            );
            let log = self.api.text(&log).await.unwrap_or_default();
            return Ok(vec![error(test, message, log)]);
        }
        let log = self.api.text(&log).await?;
        let files = match &storage {
            Storage::None => None,
            Storage::Local(directory) => Some(local_files(directory.path())),
            Storage::Volume(_) => {
                let log = format!("{pods}/{name}/log?container={GATHER}");
                Some(unpacked(&self.api.text(&log).await?))
            }
        };
        if let Some(files) = files {
            let output = &self.args.test_output;
            let directory = output.join(folder(test, "suite")).join(folder(test, "test"));
            let written = files.and_then(|files| write(&files, &directory));
            written.map_err(|reason| ScorecardError::Storage {
                directory: directory.clone(),
                reason,
            })?;
            self.report.progress(&format!(
                "Wrote the files of {} to {}",
                label(test, "test"),
                directory.display()
            ));
        }
        Ok(results(test, &log))
    }

    /// Deletes the pods and the ConfigMaps.
    async fn clean(&self) {
        for plural in ["pods", "configmaps"] {
            let path = format!("{}/{plural}?labelSelector=testrun%3D{}", self.core, self.name);
            if let Err(error) = self.api.delete(&path).await {
                self.report.warning(
                    &format!("the {plural} of the tests were not deleted: {error}"),
                    None,
                );
            }
        }
    }
}

/// Returns the files of a bundle with keys, in parts that fit into ConfigMaps.
fn parts(files: &Files) -> Vec<Vec<(String, String, Vec<u8>)>> {
    let mut parts = vec![Vec::new()];
    let mut size = 0;
    let included = files
        .iter()
        .filter(|(path, _)| PARTS.iter().any(|part| path.starts_with(part)));
    for (index, (path, content)) in included.enumerate() {
        if size + content.len() > PART_MAX && size > 0 {
            parts.push(Vec::new());
            size = 0;
        }
        size += content.len();
        if let Some(part) = parts.last_mut() {
            part.push((format!("file-{index}"), path.to_owned(), content.to_vec()));
        }
    }
    parts
}

fn label<'a>(test: &'a Test, name: &str) -> &'a str {
    test.value["labels"][name].as_str().unwrap_or(TEST)
}

/// Returns a label as the name of a directory.
fn folder(test: &Test, name: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let text = label(test, name).trim_start_matches('.');
    text.replace(|character| !is_plain(character), "-")
}

/// The place of the files that a test writes.
enum Storage<'a> {
    None,
    /// A volume of the pod, mounted at the path.
    Volume(&'a str),
    /// A directory of this machine, for a program in place of the image.
    Local(TemporaryDirectory),
}

/// Returns the directory whose files are kept after a test.
fn storage(test: &Test) -> Option<&str> {
    test.value.pointer("/storage/spec/mountPath/path")?.as_str()
}

/// Returns the pod of a test. With storage, the test is an init container, and the container prints the files
/// afterwards.
fn pod(args: &ScorecardArgs, run: &str, bundle: &Value, test: &Test, storage: &Storage<'_>) -> Value {
    let mut container = json!({
        "name": TEST,
        "image": test.value["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": words(&test.value),
        "env": [
            {"name": "SCORECARD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "SCORECARD_BUNDLE", "value": BUNDLE},
        ],
        "volumeMounts": [{"name": "scorecard-bundle", "mountPath": BUNDLE, "readOnly": true}],
    });
    let mut volumes = vec![bundle.clone()];
    let mut spec = json!({"restartPolicy": "Never", "serviceAccountName": account(args, test)});
    let mut gather = Value::Null;
    let directory = match storage {
        Storage::None => None,
        Storage::Volume(path) => Some((*path).to_owned()),
        Storage::Local(directory) => Some(directory.path().display().to_string()),
    };
    if let (Some(directory), Some(Value::Array(variables))) = (directory, container.get_mut("env")) {
        variables.push(json!({"name": "SCORECARD_STORAGE", "value": directory}));
    }
    if let Storage::Volume(path) = storage {
        let mount = json!({"name": "scorecard-storage", "mountPath": path});
        volumes.push(json!({"name": "scorecard-storage", "emptyDir": {}}));
        if let Some(Value::Array(mounts)) = container.get_mut("volumeMounts") {
            mounts.push(mount.clone());
        }
        gather = json!({
            "name": GATHER, "image": args.storage_image, "volumeMounts": [mount],
            "command": ["sh", "-c", "tar -C \"$0\" -cz . | base64", path],
        });
    }
    if args.pod_security == PodSecurityArg::Restricted {
        spec["securityContext"] = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        for container in [&mut container, &mut gather] {
            if container.is_object() {
                container["securityContext"] =
                    json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
            }
        }
    }
    if gather.is_null() {
        spec["containers"] = json!([container]);
    } else {
        spec["initContainers"] = json!([container]);
        spec["containers"] = json!([gather]);
    }
    spec["volumes"] = json!(volumes);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "scorecard-test-", "labels": {"app": "scorecard-test", "testrun": run}},
        "spec": spec,
    })
}

fn account<'a>(args: &'a ScorecardArgs, test: &'a Test) -> &'a str {
    let configured = || (!test.account.is_empty()).then_some(test.account.as_str());
    args.service_account
        .as_deref()
        .or_else(configured)
        .unwrap_or("default")
}

fn error(test: &Test, message: String, log: String) -> Outcome {
    Outcome {
        name: label(test, "test").to_owned(),
        state: State::Error,
        errors: vec![message],
        log,
        ..Outcome::default()
    }
}

/// Parses the results that a test has printed.
fn results(test: &Test, log: &str) -> Vec<Outcome> {
    let parsed = serde_json::from_str::<Value>(log.trim()).ok();
    let last = || serde_json::from_str::<Value>(log.trim().lines().last()?).ok();
    let document = parsed.or_else(last).unwrap_or_default();
    let Some(results) = document["results"]
        .as_array()
        .filter(|results| !results.is_empty())
    else {
        let message =
            "the test printed no results: a JSON document {\"results\": [...]} is expected".to_owned();
        return vec![error(test, message, log.to_owned())];
    };
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    results
        .iter()
        .map(|result| {
            let mut errors = texts(&result["errors"]);
            let state = match result["state"].as_str() {
                Some("pass") => State::Pass,
                Some("fail") => State::Fail,
                Some("error") => State::Error,
                state => {
                    errors.push(format!(
                        "unknown state {:?}: expected pass, fail or error",
                        state.unwrap_or_default()
                    ));
                    State::Error
                }
            };
            Outcome {
                name: result["name"].as_str().unwrap_or(label(test, "test")).to_owned(),
                log: result["log"].as_str().unwrap_or_default().to_owned(),
                state,
                errors,
                suggestions: texts(&result["suggestions"]),
            }
        })
        .collect()
}

/// Returns the files of an archive that was printed as base64.
fn unpacked(text: &str) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let text: String = text.split_whitespace().collect();
    let bytes = BASE64_STANDARD.decode(text).map_err(|error| error.to_string())?;
    crate::process::registry::files_of(GzDecoder::new(bytes.as_slice()))
}

/// Returns the files of a directory.
fn local_files(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let files = files::read(directory).map_err(|error| error.to_string())?;
    let owned = |(path, content): (&str, &[u8])| (path.to_owned(), content.to_vec());
    Ok(files.iter().map(owned).collect())
}

fn write(files: &BTreeMap<String, Vec<u8>>, directory: &Path) -> Result<(), String> {
    for (path, content) in files {
        let file = directory.join(path);
        let parent = file.parent().unwrap_or(directory);
        let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&file, content));
        written.map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ScorecardArgs,
    }

    fn test(suite: &str) -> Test {
        Test {
            value: json!({
                "image": "example.com/tests:v1", "entrypoint": ["custom"],
                "labels": {"suite": suite, "test": "writes-test"},
                "storage": {"spec": {"mountPath": {"path": "/files"}}},
            }),
            built_in: None,
            stage: 0,
            is_parallel: false,
            account: String::new(),
        }
    }

    #[test]
    fn the_pod_of_a_test_with_storage_prints_its_files() {
        let args = Command::parse_from(["scorecard", "bundle"]).args;
        let bundle = json!({"name": "scorecard-bundle", "configMap": {"name": "b"}});
        let test = test("custom");
        let path = storage(&test).unwrap();
        let pod = pod(&args, "run", &bundle, &test, &Storage::Volume(path));
        let (first, second) = (&pod["spec"]["initContainers"][0], &pod["spec"]["containers"][0]);
        assert_eq!(
            (first["name"].as_str(), second["name"].as_str()),
            (Some(TEST), Some(GATHER))
        );
        let mount = json!({"name": "scorecard-storage", "mountPath": "/files"});
        assert_eq!(first["volumeMounts"][1], mount);
        assert_eq!(second["volumeMounts"], json!([mount]));
        assert_eq!(second["command"][3], "/files");
        assert_eq!(pod["spec"]["volumes"][1]["emptyDir"], json!({}));
    }

    #[test]
    fn printed_files_are_unpacked() {
        let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(
            Vec::new(),
            flate2::Compression::default(),
        ));
        let mut header = tar::Header::new_gnu();
        header.set_size(2);
        header.set_mode(0o644);
        builder.append_data(&mut header, "./a/b.txt", &b"ok"[..]).unwrap();
        let bytes = builder.into_inner().unwrap().finish().unwrap();
        let mut text = BASE64_STANDARD.encode(bytes);
        text.insert(10, '\n');
        let expected = BTreeMap::from([("a/b.txt".to_owned(), b"ok".to_vec())]);
        assert_eq!(unpacked(&text).unwrap(), expected);
        assert!(unpacked("no archive").is_err());
    }

    #[test]
    fn labels_do_not_leave_the_output_directory() {
        assert_eq!(folder(&test("../../etc"), "suite"), "-..-etc");
        assert_eq!(folder(&test("a/b"), "suite"), "a-b");
    }
}
