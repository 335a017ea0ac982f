//! `run bundle`: creates a catalog with one bundle and a Subscription, and waits for the installation of the operator.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use operator_olm::catalog::{self, Catalog, Channel, Entry, Package, validate};
use operator_olm::render;
use serde_json::{Value, json};

use super::mode::{InstallMode, install_mode};
use super::process::{Built, LocalProgram, LocalProject};
use super::session::{
    CATALOG_SOURCE, CONFIG_MAP, CSV, DEFINITION, DEPLOYMENT, INSTALL_PLAN, OPERATOR_GROUP, POD, SUBSCRIPTION,
    Session, V1ALPHA1,
};
use super::{OlmError, ROOT_V1, api, config_maps_of, registry, signals, undone_on_failure, v1};
use crate::args::{ClusterArgs, OlmVersionArg, RegistryArgs, RunBundleArgs};
use crate::failure::Failure;
use crate::process::api::{Api, processes_directory};
use crate::process::cluster::{Cluster, ClusterOptions};
use crate::process::objects::text;
use crate::process::signal::{Ends, INTERRUPTED};
use crate::report::Report;
use crate::run::bundle::{Loaded, is_image, load};
use crate::run::cluster::ready_line;

/// The channel of the catalog of `run bundle`.
pub(super) const CHANNEL: &str = "operator-sdk-run-bundle";
/// The name of the OperatorGroup of `run bundle`.
pub(super) const GROUP: &str = "operator-sdk-og";
/// The annotations of a CatalogSource that `run bundle` created.
pub(super) const INJECTED: &str = "operators.operatorframework.io/injected-bundles";
pub(super) const POD_NAME: &str = "operators.operatorframework.io/registry-pod-name";
const INDEX_IMAGE: &str = "operators.operatorframework.io/index-image";

/// A rendered bundle.
pub(crate) struct Source {
    pub(super) loaded: Loaded,
    pub(super) rendered: catalog::Bundle,
}

impl Source {
    /// Reads a bundle directory, or pulls a bundle image.
    pub(crate) fn read(place: &str, insecure: bool) -> Result<Self, Failure> {
        if !Path::new(place).is_dir() && !is_image(place) {
            return Err(OlmError::NoBundle(place.to_owned()).into());
        }
        let loaded = load(place, insecure)?;
        let rendered = render::render(&loaded.bundle, "").map_err(|reason| OlmError::Render {
            place: place.to_owned(),
            reason,
        })?;
        Ok(Self { loaded, rendered })
    }

    pub(super) fn csv(&self) -> &Value {
        self.loaded.bundle.csv_manifest().value()
    }

    /// Returns the names of the CRDs that the operator owns.
    fn owned(&self) -> Vec<String> {
        let owned = self
            .loaded
            .bundle
            .csv_list("/spec/customresourcedefinitions/owned");
        owned
            .iter()
            .map(|owned| text(owned, "/name").to_owned())
            .collect()
    }

    /// Returns the catalog with only this bundle.
    pub(super) fn catalog(&self) -> Catalog {
        let package = self.rendered.package.clone();
        Catalog {
            packages: vec![Package {
                name: package.clone(),
                default_channel: CHANNEL.to_owned(),
                ..Package::default()
            }],
            channels: vec![Channel {
                name: CHANNEL.to_owned(),
                package,
                entries: Some(vec![Entry {
                    name: self.rendered.name.clone(),
                    ..Entry::default()
                }]),
                ..Channel::default()
            }],
            bundles: vec![self.rendered.clone()],
            ..Catalog::default()
        }
    }
}

/// Runs `operator-sdk run bundle`.
pub(crate) fn run_bundle(args: &RunBundleArgs, report: &Report) -> Result<ExitCode, Failure> {
    let source = Source::read(&args.bundle, args.insecure)?;
    let project = LocalProject::find(&args.program, &source)?;
    crate::run::block_on(async {
        let mut ends = signals()?;
        if args.embedded {
            return embedded(args, &source, project, &mut ends, report).await;
        }
        let programs = programs(&args.olm.cluster)?;
        let program = match project.filter(|_| programs.is_some()) {
            Some(project) => match project.build(&source, &mut ends).await? {
                Built::Program(program) => Some(program),
                Built::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
            },
            None => None,
        };
        let api = api(&args.olm.cluster).await?;
        let is_embedded = programs.is_some();
        let program = program.as_ref().zip(programs.as_deref());
        run(api, args, &source, program, is_embedded, &mut ends, report).await
    })
}

/// Returns the directory with the local programs of a cluster, if it is an embedded one on this machine.
pub(super) fn programs(cluster: &ClusterArgs) -> Result<Option<PathBuf>, Failure> {
    Ok(processes_directory(
        cluster.kubeconfig.as_deref(),
        cluster.context.as_deref(),
    )?)
}

async fn run(
    api: Api,
    args: &RunBundleArgs,
    source: &Source,
    program: Option<(&LocalProgram, &Path)>,
    is_embedded: bool,
    ends: &mut Ends,
    report: &Report,
) -> Result<ExitCode, Failure> {
    let namespace = args.olm.namespace.as_deref();
    let root = match args.olm_version {
        OlmVersionArg::V0 => V1ALPHA1,
        OlmVersionArg::V1 => ROOT_V1,
    };
    let mut session = Session::open(api, &[root], namespace, args.olm.timeout, report).await?;
    let mode = install_mode(args.install_mode.as_deref(), source.csv(), &session.namespace)?;
    if let Some((program, directory)) = program {
        program.register(directory, &session.namespace)?;
    }
    undone_on_failure(&mut session, ends, async |session| {
        let (api, namespace) = (session.api.clone(), session.namespace.clone());
        let installed = async {
            match args.olm_version {
                OlmVersionArg::V0 => {
                    let is_chosen = args.install_mode.is_some();
                    install(session, source, &mode, is_chosen, &args.registry).await
                }
                OlmVersionArg::V1 => v1::install(session, source, &mode, args, is_embedded).await,
            }
        };
        match program {
            Some((program, _)) => {
                program
                    .unless_it_crashes(&api, &namespace, installed)
                    .await?;
            }
            None => installed.await?,
        }
        report.line(&format!(
            "OLM has successfully installed {:?}",
            source.rendered.name
        ));
        if let Some((program, _)) = program {
            program.explain(&session.namespace, report);
        }
        if args.push_to.is_none() && Path::new(&args.bundle).is_dir() {
            report.progress(&format!(
                "The content of {} is in ConfigMaps of this cluster, which other clusters cannot read. For clusters that pull \
                 from a registry, run `operator-sdk bundle push`; for clusters that reach this machine, run `operator-sdk \
                 catalog serve`.",
                args.bundle
            ));
        }
        Ok(())
    })
    .await
}

/// Runs a bundle on a control plane in this process, until a signal.
async fn embedded(
    args: &RunBundleArgs,
    source: &Source,
    project: Option<LocalProject>,
    ends: &mut Ends,
    report: &Report,
) -> Result<ExitCode, Failure> {
    let program = match project {
        Some(project) => match project.build(source, ends).await? {
            Built::Program(program) => Some(program),
            Built::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
        },
        None => None,
    };
    let cluster = Cluster::start(&ClusterOptions {
        port: None,
        data_directory: None,
        fsync: false,
        controllers: true,
        nodes: 1,
        olm: true,
        kubeconfig: args.olm.cluster.kubeconfig.clone(),
        audit: None,
    })
    .await?;
    let programs = program.as_ref().zip(Some(cluster.programs()));
    let outcome = match Api::connect(cluster.kubeconfig()).await {
        Ok(api) => run(api, args, source, programs, true, ends, report).await,
        Err(error) => Err(error.into()),
    };
    if matches!(outcome, Ok(code) if code == ExitCode::SUCCESS) {
        if program.is_none() {
            report.warning(
                "the pods of the control plane are simulated: the operator is installed, but its image is not run",
                Some("run the command in the directory of the operator's project, whose program then runs as the pods"),
            );
        }
        report.line(&ready_line(&cluster));
        ends.next().await;
        report.progress("Stopping the control plane.");
    }
    cluster.shutdown().await;
    outcome
}

/// Installs a bundle in the namespace of the session. An existing OperatorGroup must match a given install mode.
pub(super) async fn install(
    session: &mut Session<'_>,
    source: &Source,
    mode: &InstallMode,
    is_chosen: bool,
    registry: &RegistryArgs,
) -> Result<(), Failure> {
    let csv = source.rendered.name.clone();
    let package = &source.rendered.package;
    let report = session.report;
    if session.get(CSV, &csv).await?.is_some() {
        return Err(exists(session, CSV.word, &csv));
    }
    let subscriptions = session.list(SUBSCRIPTION).await?;
    let known = subscriptions
        .iter()
        .find(|known| text(known, "/spec/name") == package);
    if let Some(known) = known {
        return Err(exists(session, SUBSCRIPTION.word, text(known, "/metadata/name")));
    }
    let group = group(session, is_chosen, mode).await?;
    report.progress(&format!("Creating a File-Based Catalog of the bundle {csv:?}"));
    let catalog = source.catalog();
    validate(&catalog).map_err(OlmError::Catalog)?;
    report.progress("Generated a valid File-Based Catalog");
    let name = format!("{package}-catalog");
    // Recorded for the rollback: objects that OLM creates are deleted before the catalog, and CRDs only if they are
    // new.
    for definition in source.owned() {
        if session.get(DEFINITION, &definition).await?.is_none() {
            session.delete_on_failure(DEFINITION, &definition);
        }
    }
    let created = serve(session, &name, &catalog, &csv, registry).await?;
    report.progress(&format!(
        "Created CatalogSource: {}",
        text(&created, "/metadata/name")
    ));
    if let Some(group) = group {
        session.create(OPERATOR_GROUP, &group).await?;
        report.progress(&format!("OperatorGroup {GROUP:?} created"));
    }
    session.delete_on_failure(CSV, &csv);
    let subscription = format!("{}-sub", csv.replace('.', "-").to_lowercase());
    let object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": subscription},
        "spec": {
            "name": package, "channel": CHANNEL, "source": name, "sourceNamespace": session.namespace,
            "startingCSV": csv, "installPlanApproval": "Manual",
        },
    });
    session.create(SUBSCRIPTION, &object).await?;
    report.progress(&format!("Created Subscription: {subscription}"));
    approve(session, &subscription, "").await?;
    succeeded(session, &subscription, &csv).await?;
    session.keep();
    Ok(())
}

fn exists(session: &Session<'_>, word: &'static str, name: &str) -> Failure {
    let (name, namespace) = (name.to_owned(), session.namespace.clone());
    OlmError::Exists {
        word,
        name,
        namespace,
    }
    .into()
}

/// Returns the OperatorGroup to create, or checks the existing one of the namespace.
async fn group(session: &Session<'_>, is_chosen: bool, mode: &InstallMode) -> Result<Option<Value>, Failure> {
    let groups = session.list(OPERATOR_GROUP).await?;
    match groups.as_slice() {
        [] => {
            let spec = if mode.targets.is_empty() {
                json!({})
            } else {
                json!({"targetNamespaces": mode.targets})
            };
            Ok(Some(json!({
                "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"name": GROUP}, "spec": spec,
            })))
        }
        [known] => {
            let targets = known.pointer("/status/namespaces").and_then(Value::as_array);
            let mut targets: Vec<&str> = targets
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .filter(|target| !target.is_empty())
                .collect();
            let mut wanted: Vec<&str> = mode.targets.iter().map(String::as_str).collect();
            targets.sort_unstable();
            wanted.sort_unstable();
            if is_chosen && targets != wanted {
                let name = text(known, "/metadata/name").to_owned();
                let mode = mode.name.clone();
                return Err(OlmError::Group { name, mode }.into());
            }
            Ok(None)
        }
        many => {
            let names: Vec<&str> = many.iter().map(|group| text(group, "/metadata/name")).collect();
            Err(OlmError::Groups {
                namespace: session.namespace.clone(),
                names: format!("{names:?}"),
            }
            .into())
        }
    }
}

/// Creates a CatalogSource with the ConfigMaps and the pod that serve a catalog.
async fn serve(
    session: &mut Session<'_>,
    name: &str,
    catalog: &Catalog,
    csv: &str,
    args: &RegistryArgs,
) -> Result<Value, Failure> {
    let mut spec =
        json!({"sourceType": "grpc", "displayName": catalog.packages[0].name, "publisher": "operator-sdk"});
    if let Some(secret) = &args.pull_secret_name {
        spec["secrets"] = json!([secret]);
    }
    if args.security_context_config == crate::args::SecurityContextArg::Restricted {
        spec["grpcPodConfig"] = json!({"securityContextConfig": "restricted"});
    }
    let object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name}, "spec": spec,
    });
    let source = session.create(CATALOG_SOURCE, &object).await?;
    let config_maps = config_maps_of(catalog, &source)?;
    for config_map in &config_maps {
        session.create(CONFIG_MAP, config_map).await?;
    }
    let pod = start_pod(session, &source, config_maps.len(), csv, args).await?;
    let patch = json!({
        "metadata": {"annotations": {
            INDEX_IMAGE: args.index_image,
            INJECTED: injected(&[csv.to_owned()]),
            POD_NAME: text(&pod, "/metadata/name"),
        }},
        "spec": {"address": registry::address(&pod)},
    });
    session.patch(CATALOG_SOURCE, name, &patch, json!({})).await?;
    Ok(source)
}

/// Returns the value of the annotation with the bundles of a catalog.
pub(super) fn injected(bundles: &[String]) -> String {
    let all: Vec<Value> = bundles
        .iter()
        .map(|bundle| json!({"imageTag": bundle, "mode": "semver"}))
        .collect();
    json!(all).to_string()
}

/// Creates the pod that serves a catalog, and waits until it is running.
pub(super) async fn start_pod(
    session: &mut Session<'_>,
    source: &Value,
    config_maps: usize,
    csv: &str,
    args: &RegistryArgs,
) -> Result<Value, Failure> {
    let name = registry::name(csv);
    let pod = registry::pod(&name, source, config_maps, args);
    session.create(POD, &pod).await?;
    session.report.progress(&format!("Created registry pod: {name}"));
    let report = session.report;
    let mut told = String::new();
    let goal = format!("phase Running of the registry pod {name:?}");
    let running = session
        .until(POD, &name, &goal, |pod| {
            let pod = pod?;
            if let Some(fault) = registry::fault(pod).filter(|fault| *fault != told) {
                report.progress(&format!("  Registry pod {name:?}: {fault}"));
                told = fault;
            }
            let is_running =
                text(pod, "/status/phase") == "Running" && !text(pod, "/status/podIP").is_empty();
            is_running.then(|| pod.clone())
        })
        .await;
    match running {
        Err(_) if session.is_over() => {
            let pod = session.get(POD, &name).await?;
            let cause = pod.as_ref().and_then(registry::fault);
            Err(session.timeout(&goal, cause.as_slice()))
        }
        running => running,
    }
}

/// Waits for an InstallPlan of a Subscription other than `before`, and approves it.
pub(super) async fn approve(session: &Session<'_>, subscription: &str, before: &str) -> Result<(), Failure> {
    let report = session.report;
    let mut told = String::new();
    let goal = format!("an install plan of the subscription {subscription:?}");
    let plan = session
        .until(SUBSCRIPTION, subscription, &goal, |found| {
            let found = found?;
            if let Some(problem) = problem(found).filter(|problem| *problem != told) {
                report.progress(&format!("  Subscription {subscription:?}: {problem}"));
                told = problem;
            }
            if let Some(failed) = condition(found, &["BundleUnpackFailed"]) {
                return Some(Err(OlmError::Unpack {
                    name: subscription.to_owned(),
                    message: text(failed, "/message").to_owned(),
                }));
            }
            let plan = text(found, "/status/installPlanRef/name");
            (!plan.is_empty() && plan != before).then(|| Ok(plan.to_owned()))
        })
        .await;
    let plan = match plan {
        Err(_) if session.is_over() => {
            let found = session.get(SUBSCRIPTION, subscription).await?;
            let cause = found.as_ref().and_then(problem);
            return Err(session.timeout(&goal, cause.as_slice()));
        }
        plan => plan??,
    };
    session.approve_plan(&plan).await?;
    report.progress(&format!(
        "Approved InstallPlan {plan} for the Subscription: {subscription}"
    ));
    Ok(())
}

/// Returns the condition of a Subscription that blocks its progress.
fn problem(subscription: &Value) -> Option<String> {
    let bad = ["ResolutionFailed", "CatalogSourcesUnhealthy", "InstallPlanFailed"];
    let found = condition(subscription, &bad)?;
    Some(format!("{}: {}", text(found, "/type"), text(found, "/message")))
}

/// Returns the first condition of the given types that is True.
fn condition<'a>(subscription: &'a Value, types: &[&str]) -> Option<&'a Value> {
    let conditions = subscription.pointer("/status/conditions")?.as_array()?;
    let is_found = |found: &&Value| types.contains(&text(found, "/type")) && text(found, "/status") == "True";
    conditions.iter().find(is_found)
}

/// Waits until a ClusterServiceVersion is installed.
pub(super) async fn succeeded(session: &Session<'_>, subscription: &str, csv: &str) -> Result<(), Failure> {
    let report = session.report;
    report.progress(&format!(
        "Waiting for ClusterServiceVersion {csv:?} to reach 'Succeeded' phase"
    ));
    report.progress(&format!("  Waiting for ClusterServiceVersion {csv:?} to appear"));
    let mut told = String::new();
    let goal = format!("phase Succeeded of the ClusterServiceVersion {csv:?}");
    let followed = session.until(CSV, csv, &goal, |found| {
        let found = found?;
        let phase = text(found, "/status/phase");
        let (reason, message) = (text(found, "/status/reason"), text(found, "/status/message"));
        let line = match phase {
            "Succeeded" | "" => format!("{phase:?}"),
            phase => format!("{phase:?}: {message}"),
        };
        if !phase.is_empty() && line != told {
            report.progress(&format!("  Found ClusterServiceVersion {csv:?} phase: {line}"));
            told = line;
        }
        match phase {
            "Succeeded" => Some(Ok(())),
            "Failed" => Some(Err(OlmError::Csv {
                reason: reason.to_owned(),
                message: message.to_owned(),
                causes: String::new(),
            })),
            _ => None,
        }
    });
    let plan = failed_plan(session, subscription);
    let outcome = tokio::select! {
        outcome = followed => outcome,
        failed = plan => Ok(Err(failed?)),
    };
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.with_causes(&causes(session, csv).await?).into()),
        Err(_) if session.is_over() => Err(session.timeout(&goal, &causes(session, csv).await?)),
        Err(failure) => Err(failure),
    }
}

/// Waits until the InstallPlan of a Subscription fails. Otherwise it never returns.
async fn failed_plan(session: &Session<'_>, subscription: &str) -> Result<OlmError, Failure> {
    let found = session.get(SUBSCRIPTION, subscription).await?.unwrap_or_default();
    let name = text(&found, "/status/installPlanRef/name").to_owned();
    let report = session.report;
    let mut told = String::new();
    let message = session
        .until(INSTALL_PLAN, &name, "an outcome", |plan| {
            let plan = plan?;
            let message = text(plan, "/status/message");
            if !message.is_empty() && message != told {
                report.progress(&format!("  InstallPlan {name:?}: {message}"));
                message.clone_into(&mut told);
            }
            (text(plan, "/status/phase") == "Failed").then(|| message.to_owned())
        })
        .await;
    match message {
        Ok(message) => Ok(OlmError::Plan { name, message }),
        // The other wait reports the timeout.
        Err(_) => std::future::pending().await,
    }
}

/// Returns the known causes of a failed installation.
async fn causes(session: &Session<'_>, csv: &str) -> Result<Vec<String>, Failure> {
    let mut causes = Vec::new();
    let Some(found) = session.get(CSV, csv).await? else {
        return Ok(causes);
    };
    let requirements = found
        .pointer("/status/requirementStatus")
        .and_then(Value::as_array);
    for requirement in requirements.into_iter().flatten() {
        let status = text(requirement, "/status");
        if !["Present", "DeploymentFound"].contains(&status) {
            causes.push(format!(
                "{} {} is {status}: {}",
                text(requirement, "/kind"),
                text(requirement, "/name"),
                text(requirement, "/message")
            ));
        }
    }
    let deployments = found
        .pointer("/spec/install/spec/deployments")
        .and_then(Value::as_array);
    let pods = session.list(POD).await?;
    for name in deployments
        .into_iter()
        .flatten()
        .map(|entry| text(entry, "/name"))
    {
        let Some(deployment) = session.get(DEPLOYMENT, name).await? else {
            continue;
        };
        let conditions = deployment.pointer("/status/conditions").and_then(Value::as_array);
        let bad = conditions.into_iter().flatten().find(|condition| {
            condition["type"] == "ReplicaFailure" && condition["status"] == "True"
                || condition["type"] == "Available" && condition["status"] == "False"
        });
        if let Some(condition) = bad {
            causes.push(format!(
                "deployment {name} has error: {}",
                text(condition, "/message")
            ));
        }
        let prefix = format!("{name}-");
        for pod in pods
            .iter()
            .filter(|pod| text(pod, "/metadata/name").starts_with(&prefix))
        {
            if let Some(fault) = registry::fault(pod) {
                causes.push(format!("pod {} has error: {fault}", text(pod, "/metadata/name")));
            }
        }
    }
    Ok(causes)
}
