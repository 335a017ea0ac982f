//! `operator-sdk install`, `uninstall`, `deploy` and `undeploy`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// The cluster to use.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ClusterArgs {
    /// The kubeconfig [default: KUBECONFIG, or ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: the current context].
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// Options for applying objects.
#[derive(Clone, Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Have the cluster check the changes, print the result, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print what would change, as a diff of the objects, and change nothing.
    #[arg(long)]
    pub(crate) diff: bool,
    /// Take ownership of fields that other field managers have set.
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    /// Time limit for the applied objects to become ready, such as 90s or 2m; 0 does not wait.
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Options for deleting objects.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Print what would be deleted, and delete nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Time limit for the deletion, such as 90s or 2m; 0 does not wait.
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Confirmation for deleting CRDs and with them the objects of their kinds.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DeleteCrdsArgs {
    /// Delete the objects of the project's kinds without confirmation, which is asked only on a terminal.
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

/// The kustomization to render, and its settings.
#[derive(Clone, Debug, Args)]
pub(crate) struct RenderArgs {
    /// The image of the operator instead of `controller`; the project is not changed.
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

/// Remove the CRDs of the project from the cluster, and with them all objects of their kinds.
///
/// On a terminal, it asks for confirmation if there are objects. A running operator can still complete its finalizers:
/// objects that wait for them are listed.
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
/// Renders config/default, applies it (server-side) in dependency order, and waits until the operator is available.
/// Objects of an earlier deployment of this project that are no longer in the kustomization are deleted, except CRDs
/// and namespaces. Objects get the label `rust.operator-sdk.dev/project`.
///
/// The nodes of `cluster up` are simulated and run no images. With `--process`, the program of the project runs on this
/// machine as the operator's pods: with the arguments, environment, probes and service account of the container,
/// restarts with backoff, and `kubectl logs`. Each pod listens on its own address: 10.128.0.2 in the cluster is
/// 127.128.0.2 on this machine. Only the volumes of the service account, of Secrets and of ConfigMaps are mounted, in a
/// private directory: arguments and variables with the path in the container get its path. Needs Linux.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk deploy --image registry.example.com/memcached-operator:v0.0.1\n  operator-sdk deploy --diff\n  operator-sdk cluster up --kubeconfig kubeconfig &\n  operator-sdk deploy --kubeconfig kubeconfig --process"
)]
pub(crate) struct DeployArgs {
    #[command(flatten)]
    pub(crate) render: RenderArgs,
    #[command(flatten)]
    pub(crate) apply: ApplyArgs,
    /// Keep objects of an earlier deployment that are no longer in the kustomization.
    #[arg(long)]
    pub(crate) no_prune: bool,
    /// Build the project, and run its program instead of the image, on a cluster of `operator-sdk cluster up`. This
    /// requires write access to the cluster's private directory; access to the API server is not enough.
    #[arg(long)]
    pub(crate) process: bool,
    /// Build an optimized program.
    #[arg(long, requires = "process")]
    pub(crate) release: bool,
}

/// Remove the operator from the cluster, with all objects that `deploy` created.
///
/// The CRDs are deleted first, with all objects of their kinds, so that the running operator can complete its
/// finalizers. On a terminal, it asks for confirmation if there are objects. A namespace is deleted only if `deploy`
/// created it.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  operator-sdk undeploy --keep-crds")]
pub(crate) struct UndeployArgs {
    /// The namespace of the operator [default: the one of config/default].
    #[arg(long, short = 'n', value_name = "NS")]
    pub(crate) namespace: Option<String>,
    /// The directory with the kustomization.
    #[arg(long, default_value = "config/default", value_name = "DIR")]
    pub(crate) kustomization: String,
    /// Keep the CRDs and all objects of their kinds.
    #[arg(long)]
    pub(crate) keep_crds: bool,
    #[command(flatten)]
    pub(crate) crds: DeleteCrdsArgs,
    #[command(flatten)]
    pub(crate) delete: DeleteArgs,
}

/// Write all manifests of the operator into one file, for users without this tool: `kubectl apply -f` installs it.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  operator-sdk generate installer --image registry.example.com/memcached-operator:v0.0.1"
)]
pub(crate) struct InstallerArgs {
    #[command(flatten)]
    pub(crate) render: RenderArgs,
    /// The file to write.
    #[arg(long, short, default_value = "dist/install.yaml", value_name = "FILE")]
    pub(crate) output: String,
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Parses a duration such as `90`, `90s`, `2m` or `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("invalid duration {text:?}: use a form such as 90s, 2m or 1h30m");
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
