//! `operator-sdk install`, `uninstall`, `deploy` and `undeploy`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Which cluster is meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ClusterArgs {
    /// The kubeconfig [default: KUBECONFIG, or ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one].
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// How objects are applied.
#[derive(Clone, Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Ask the cluster what would happen, print it, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print what would change, as a diff of the objects, and change nothing.
    #[arg(long)]
    pub(crate) diff: bool,
    /// Take over fields that other managers have set.
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    /// How long to wait until what was applied is ready, such as 90s or 2m; 0 does not wait.
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// How objects are deleted.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Print what would be deleted, and delete nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long to wait until everything is gone, such as 90s or 2m; 0 does not wait.
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Protection of the objects of the project's kinds against deletion with their CRDs.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DeleteCrdsArgs {
    /// Delete the objects of the project's kinds without asking; only a terminal is asked.
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

/// Which tree is rendered, and with which changes.
#[derive(Clone, Debug, Args)]
pub(crate) struct RenderArgs {
    /// The image of the operator, in place of `controller`; nothing is written to the project.
    #[arg(long, visible_alias = "img", env = "IMG", value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// The namespace of the operator [default: the one of config/default].
    #[arg(long, short = 'n', value_name = "NS")]
    pub(crate) namespace: Option<String>,
    /// The directory with the kustomization.
    #[arg(long, default_value = "config/default", value_name = "DIR")]
    pub(crate) kustomization: String,
}

/// Install the CRDs of the project into the cluster.
///
/// Renders config/crd, applies it (server-side), and waits until every kind is served.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  operator-sdk generate manifests && operator-sdk install")]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    pub(crate) apply: ApplyArgs,
}

/// Remove the CRDs of the project from the cluster, and with them every object of these kinds.
///
/// At a terminal it asks first if there are objects. While an operator runs, it can end its finalizers: objects that
/// wait for them are named.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  operator-sdk uninstall --dry-run")]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    pub(crate) crds: DeleteCrdsArgs,
    #[command(flatten)]
    pub(crate) delete: DeleteArgs,
}

/// Deploy the operator to the cluster.
///
/// Renders config/default, applies it (server-side) in the order that objects need each other, deletes what an earlier
/// deploy of this project left there and the tree no longer has (never CRDs or namespaces), and waits until the
/// operator is available. Objects get the label `rust.operator-sdk.dev/project`.
///
/// The nodes of `cluster up` are simulated and run no images. With `--process` they run the project's own program on
/// this machine as the operator's pods: with the arguments, the environment, the probes and the service account of the
/// container, restarts with backoff, and `kubectl logs`. Each pod listens on an address of its own: 10.128.0.2 in the
/// cluster is 127.128.0.2 here. Volumes other than the service account's are not mounted. Needs Linux.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk deploy --image registry.example.com/memcached-operator:v0.0.1\n  operator-sdk deploy --diff\n  operator-sdk cluster up --kubeconfig kubeconfig &\n  operator-sdk deploy --kubeconfig kubeconfig --process"
)]
pub(crate) struct DeployArgs {
    #[command(flatten)]
    pub(crate) render: RenderArgs,
    #[command(flatten)]
    pub(crate) apply: ApplyArgs,
    /// Leave what the tree no longer has where it is.
    #[arg(long)]
    pub(crate) no_prune: bool,
    /// Build the project, and run its program in place of the image, on a cluster of `operator-sdk cluster up`. Only a
    /// user who can write to the cluster's private directory can do this; access to the API server is not enough.
    #[arg(long)]
    pub(crate) process: bool,
    /// Build the program optimized.
    #[arg(long, requires = "process")]
    pub(crate) release: bool,
}

/// Remove the operator from the cluster, with everything that `deploy` brought.
///
/// The CRDs go first, and with them every object of their kinds, so that the operator can still end the finalizers. At
/// a terminal it asks first if there are objects. A namespace is deleted only if `deploy` made it.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  operator-sdk undeploy --keep-crds")]
pub(crate) struct UndeployArgs {
    /// The namespace of the operator [default: the one of config/default].
    #[arg(long, short = 'n', value_name = "NS")]
    pub(crate) namespace: Option<String>,
    /// The directory with the kustomization.
    #[arg(long, default_value = "config/default", value_name = "DIR")]
    pub(crate) kustomization: String,
    /// Keep the CRDs, and with them every object of their kinds.
    #[arg(long)]
    pub(crate) keep_crds: bool,
    #[command(flatten)]
    pub(crate) crds: DeleteCrdsArgs,
    #[command(flatten)]
    pub(crate) delete: DeleteArgs,
}

/// Write everything that a cluster needs into one file, for users without this tool: `kubectl apply -f` installs it.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  operator-sdk generate installer --image registry.example.com/memcached-operator:v0.0.1"
)]
pub(crate) struct InstallerArgs {
    #[command(flatten)]
    pub(crate) render: RenderArgs,
    /// The file.
    #[arg(long, short, default_value = "dist/install.yaml", value_name = "FILE")]
    pub(crate) output: String,
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `90`, `90s`, `2m`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time such as 90s, 2m or 1h30m");
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    let mut total = 0_u64;
    let mut number = String::new();
    for character in text.chars() {
        let unit = match character {
            '0'..='9' => {
                number.push(character);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3600,
            _ => return Err(wrong()),
        };
        let count: u32 = number.parse().map_err(|_| wrong())?;
        total += u64::from(count) * unit;
        number.clear();
    }
    if number.is_empty() && !text.is_empty() {
        Ok(Duration::from_secs(total))
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, seconds) in [("0", 0), ("90", 90), ("90s", 90), ("2m", 120), ("1h30m", 5400)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "2x", "-1s", "2m3", "99999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
