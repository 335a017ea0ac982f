//! The work of an operator under load, for any runtime, and the measurements that it prints.

use std::collections::BTreeMap;
use std::time::Instant;

use clap::{Parser, Subcommand};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile,
    SecurityContext,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::CustomResource;
use operator_runtime::metrics::Metrics;
use operator_runtime::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Parser)]
pub(crate) struct Args {
    /// Number of custom resources
    #[arg(long, default_value_t = 1000)]
    pub(crate) resources: usize,
    /// Number of concurrent reconciles
    #[arg(long, default_value_t = 8)]
    pub(crate) workers: usize,
    /// Seconds that the operator rests before its memory is measured
    #[arg(long, default_value_t = 5)]
    pub(crate) rest: u64,
    /// The program of the operator; this one by default
    #[arg(long, value_name = "FILE")]
    pub(crate) operator: Option<std::path::PathBuf>,
    /// Keep the created objects on the cluster
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) manager: operator_runtime::manager::Args,
    #[command(subcommand)]
    pub(crate) step: Option<Step>,
}

/// The task of a separate process.
#[derive(Clone, Copy, Subcommand)]
pub(crate) enum Step {
    /// Run the operator until everything is reconciled and it has rested, and print the costs
    Operate,
}

/// Runs memcached with this number of instances.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "load.example.com",
    version = "v1",
    kind = "Cached",
    plural = "cacheds",
    namespaced,
    status = "CachedStatus"
)]
pub(crate) struct CachedSpec {
    pub(crate) size: i32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct CachedStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub(crate) conditions: Conditions,
}

/// Returns the Deployment of a resource.
pub(crate) fn deployment_for(cached: &Cached, name: &str) -> Deployment {
    let text = str::to_owned;
    let labels = BTreeMap::from([(text("app"), text("memcached")), (text("instance"), text(name))]);
    let metadata = |name: Option<&str>| ObjectMeta {
        name: name.map(text),
        labels: Some(labels.clone()),
        ..ObjectMeta::default()
    };
    let security = PodSecurityContext {
        run_as_non_root: Some(true),
        seccomp_profile: Some(SeccompProfile {
            type_: text("RuntimeDefault"),
            ..SeccompProfile::default()
        }),
        ..PodSecurityContext::default()
    };
    let pod = PodSpec {
        security_context: Some(security),
        containers: vec![container()],
        ..PodSpec::default()
    };
    Deployment {
        metadata: metadata(Some(name)),
        spec: DeploymentSpec {
            replicas: Some(cached.spec.size),
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(metadata(None)),
                spec: Some(pod),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

fn container() -> Container {
    let text = str::to_owned;
    let command = ["memcached", "--memory-limit=64", "-o", "modern", "-v"];
    Container {
        name: text("memcached"),
        image: Some(text("memcached:1.6.26-alpine3.19")),
        command: Some(command.map(text).into()),
        ports: Some(vec![ContainerPort {
            name: Some(text("memcached")),
            container_port: 11211,
            ..ContainerPort::default()
        }]),
        security_context: Some(SecurityContext {
            run_as_non_root: Some(true),
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec![text("ALL")]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// Prints the costs until everything is reconciled.
pub(crate) fn print_settled(metrics: &Metrics, resources: usize, begin: Instant) {
    println!(
        "  all {resources} resources reconciled after {:.2} s, CPU {:.2} s",
        begin.elapsed().as_secs_f64(),
        process_metric(metrics, "process_cpu_seconds_total"),
    );
}

/// Prints the costs so far.
pub(crate) fn print(metrics: &Metrics) {
    let text = metrics.to_text();
    let interesting = [
        "rest_client_requests_total",
        "requests_total",
        "controller_runtime_reconcile_total",
        "operator_runtime_",
    ];
    for (name, value) in counted(&text) {
        let is_bucket = name.contains("_bucket");
        if value > 0.0 && !is_bucket && interesting.iter().any(|prefix| name.starts_with(prefix)) {
            println!("  {name} {value}");
        }
    }
    println!(
        "  memory at rest {:.1} MB, peak {:.1} MB, CPU in all {:.2} s",
        process_metric(metrics, "process_resident_memory_bytes") / 1024.0 / 1024.0,
        peak_memory(),
        process_metric(metrics, "process_cpu_seconds_total"),
    );
}

/// Returns the samples of the text format by name and labels.
pub(crate) fn counted(text: &str) -> BTreeMap<&str, f64> {
    let samples = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '));
    samples
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect()
}

pub(crate) fn process_metric(metrics: &Metrics, name: &str) -> f64 {
    counted(&metrics.to_text()).get(name).copied().unwrap_or_default()
}

/// Returns the peak of the resident memory in MB, or 0 without /proc.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}
