//! [`Args`], the flags and environment variables of an operator, with the names of kubebuilder's scaffolds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;

use super::options::ManagerOptions;
use super::webhooks::WebhookCertificates;
use crate::election::LeaderElectionOptions;
use crate::logging::{Encoder, LogLevel, Logging, StacktraceLevel, TimeEncoding};
use crate::webhook::WebhookServer;

/// The flags of a manager, with the names and defaults of kubebuilder's scaffolds. Flatten them into the arguments of
/// the operator.
///
/// Boolean flags can have a value, as in Go: `--leader-elect`, `--leader-elect=false`.
///
/// ```
/// use clap::Parser;
/// use operator_runtime::manager::Args;
///
/// #[derive(Parser)]
/// struct Cli {
///     #[command(flatten)]
///     manager: Args,
///     /// A flag of the operator's own.
///     #[arg(long, default_value = "memcached:1.6")]
///     image: String,
/// }
///
/// let cli = Cli::parse_from(["operator", "--leader-elect", "--metrics-bind-address=:8443", "--image=memcached:1.7"]);
/// assert!(cli.manager.leader_elect && cli.manager.metrics_secure);
/// assert_eq!(cli.manager.health_probe_bind_address, ":8081");
/// ```
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Manager")]
#[group(skip)]
pub struct Args {
    /// The address of /metrics, such as :8443; 0 disables it
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    pub metrics_bind_address: String,

    /// Serve /metrics over HTTPS with authentication and authorization
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set)]
    pub metrics_secure: bool,

    /// The directory of the certificate of /metrics; a self-signed one is used if empty
    #[arg(long, value_name = "DIR", default_value = "")]
    pub metrics_cert_path: String,

    /// The name of the certificate file
    #[arg(long, value_name = "FILE", default_value = "tls.crt")]
    pub metrics_cert_name: String,

    /// The name of the key file
    #[arg(long, value_name = "FILE", default_value = "tls.key")]
    pub metrics_cert_key: String,

    /// The address of the webhook server; all interfaces if empty
    #[arg(long, value_name = "HOST", default_value = "")]
    pub webhook_host: String,

    /// The port of the webhook server; -1 disables it
    #[arg(long, value_name = "PORT", default_value_t = i32::from(WebhookServer::PORT), allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(-1..=65535))]
    pub webhook_port: i32,

    /// The directory of the certificate of webhooks; the operator creates one and configures its trust if empty
    #[arg(long, value_name = "DIR", default_value = "")]
    pub webhook_cert_path: String,

    /// The name of the certificate file
    #[arg(long, value_name = "FILE", default_value = "tls.crt")]
    pub webhook_cert_name: String,

    /// The name of the key file
    #[arg(long, value_name = "FILE", default_value = "tls.key")]
    pub webhook_cert_key: String,

    /// The kubeconfig; defaults to KUBECONFIG, ~/.kube/config, or the service account of the pod
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Serve metrics and webhooks over HTTP/2 too
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub enable_http2: bool,

    /// The address of /healthz and /readyz; 0 disables them
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    pub health_probe_bind_address: String,

    /// Run the controllers on one instance at a time, which is elected through a Lease
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub leader_elect: bool,

    /// The namespace of the Lease; defaults to that of the pod
    #[arg(long, value_name = "NAMESPACE", default_value = "")]
    pub leader_election_namespace: String,

    /// The namespaces to watch, separated by commas; all if empty
    #[arg(
        long,
        env = "WATCH_NAMESPACE",
        value_name = "NAMESPACES",
        default_value = "",
        hide_env_values = true
    )]
    pub watch_namespace: String,

    /// The seconds that running reconciles have to finish when the operator stops; -1 for no limit
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        allow_negative_numbers = true
    )]
    pub graceful_shutdown_seconds: i64,

    /// Development mode: log text with debug messages, instead of sampled JSON
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set)]
    pub zap_devel: bool,

    /// The format of the log: json or console (default: console in development mode)
    #[arg(long, value_name = "ENCODER")]
    pub zap_encoder: Option<Encoder>,

    /// The minimum log level: debug, info, error, panic, or a number (1 is debug, more is trace); RUST_LOG overrides it
    #[arg(long, value_name = "LEVEL")]
    pub zap_log_level: Option<LogLevel>,

    /// The minimum level of messages with a stack trace: info, error or panic (default: none)
    #[arg(long, value_name = "LEVEL")]
    pub zap_stacktrace_level: Option<StacktraceLevel>,

    /// The format of timestamps
    #[arg(
        long,
        value_name = "ENCODING",
        default_value = "rfc3339nano",
        ignore_case = true
    )]
    pub zap_time_encoding: TimeEncoding,
}

// === impl Args ===

impl Args {
    /// Initializes the log of the process on standard error from the `--zap-*` flags. With `--zap-devel`, which is the
    /// default, it writes text lines from `debug` on, otherwise JSON from `info` on. An existing subscriber is kept.
    pub fn init_logging(&self) {
        self.logging().init();
    }

    fn logging(&self) -> Logging {
        let (encoder, level) = match self.zap_devel {
            true => (Encoder::Console, LogLevel(LevelFilter::DEBUG)),
            false => (Encoder::Json, LogLevel(LevelFilter::INFO)),
        };
        let level = self.zap_log_level.unwrap_or(level);
        // The level `trace` disables sampling.
        let is_sampled = !self.zap_devel && !level.is_trace();
        Logging {
            encoder: self.zap_encoder.unwrap_or(encoder),
            level,
            stacktrace_level: self.zap_stacktrace_level,
            time_encoding: self.zap_time_encoding,
            sampling: is_sampled,
        }
    }

    /// Returns the namespaces of `--watch-namespace` or `WATCH_NAMESPACE`. Empty means all.
    fn namespaces(&self) -> Vec<String> {
        let names = self.watch_namespace.split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    fn webhook_certificates(&self) -> WebhookCertificates {
        let files = files(
            &self.webhook_cert_path,
            &self.webhook_cert_name,
            &self.webhook_cert_key,
        );
        files.map_or(WebhookCertificates::Own, |(certificate, key)| {
            WebhookCertificates::Files { certificate, key }
        })
    }
}

impl From<&Args> for ManagerOptions {
    fn from(args: &Args) -> Self {
        let namespace = &args.leader_election_namespace;
        Self {
            kubeconfig: args.kubeconfig.clone(),
            namespaces: args.namespaces(),
            leader_election: args.leader_elect,
            leader_election_options: LeaderElectionOptions {
                namespace: Some(namespace.clone()).filter(|name| !name.is_empty()),
                ..LeaderElectionOptions::default()
            },
            health_probe_bind_address: args.health_probe_bind_address.clone(),
            metrics_bind_address: args.metrics_bind_address.clone(),
            metrics_secure: args.metrics_secure,
            metrics_certificate: files(
                &args.metrics_cert_path,
                &args.metrics_cert_name,
                &args.metrics_cert_key,
            ),
            webhook_bind_address: match args.webhook_port {
                -1 => "0".to_owned(),
                port => format!("{}:{port}", args.webhook_host),
            },
            webhook_certificates: args.webhook_certificates(),
            http2: args.enable_http2,
            graceful_shutdown_timeout: u64::try_from(args.graceful_shutdown_seconds)
                .ok()
                .map(Duration::from_secs),
            ..Self::default()
        }
    }
}

/// Returns the paths of certificate and key, or `None` without a directory.
fn files(directory: &str, certificate: &str, key: &str) -> Option<(PathBuf, PathBuf)> {
    let path = Path::new(directory);
    (!directory.is_empty()).then(|| (path.join(certificate), path.join(key)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        manager: Args,
    }

    fn parse(arguments: &[&str]) -> Args {
        Cli::try_parse_from([&["operator"], arguments].concat())
            .unwrap()
            .manager
    }

    #[test]
    fn boolean_flags_have_an_optional_value() {
        assert!(!parse(&[]).leader_elect);
        assert!(parse(&["--leader-elect"]).leader_elect);
        assert!(!parse(&["--leader-elect=false"]).leader_elect);
    }

    #[test]
    fn flags_of_a_scaffolded_deployment_are_known() {
        let args = parse(&[
            "--leader-elect",
            "--health-probe-bind-address=:8081",
            "--zap-devel=false",
        ]);
        assert_eq!(args.health_probe_bind_address, ":8081");
        assert_eq!(args.metrics_bind_address, "0");
        let args = parse(&["--metrics-bind-address=:8443", "--metrics-cert-path=/certs"]);
        let (certificate, key) = ManagerOptions::from(&args).metrics_certificate.unwrap();
        assert_eq!(
            (certificate, key),
            ("/certs/tls.crt".into(), "/certs/tls.key".into())
        );
    }

    #[test]
    fn flags_of_a_scaffolded_webhook_patch_are_known() {
        let args = parse(&[
            "--webhook-cert-path=/certs",
            "--webhook-cert-key=key",
            "--webhook-port=0",
        ]);
        let options = ManagerOptions::from(&args);
        assert_eq!(options.webhook_bind_address, ":0");
        let WebhookCertificates::Files { certificate, key } = options.webhook_certificates else {
            panic!("{:?}", options.webhook_certificates);
        };
        assert_eq!((certificate, key), ("/certs/tls.crt".into(), "/certs/key".into()));
        let options = ManagerOptions::from(&parse(&["--webhook-port", "-1"]));
        assert_eq!(options.webhook_bind_address, "0");
        assert!(Cli::try_parse_from(["operator", "--webhook-port=65536"]).is_err());
        let options = ManagerOptions::from(&parse(&["--webhook-host=127.0.0.1"]));
        assert_eq!(options.webhook_bind_address, "127.0.0.1:9443");
        assert!(matches!(options.webhook_certificates, WebhookCertificates::Own));
    }

    #[test]
    fn zap_flags_are_known() {
        let args = parse(&["--zap-stacktrace-level=error", "--zap-time-encoding=ISO8601"]);
        assert_eq!(args.zap_stacktrace_level, Some(StacktraceLevel::Error));
        assert_eq!(args.zap_time_encoding, TimeEncoding::Iso8601);
        assert!(Cli::try_parse_from(["operator", "--zap-time-encoding=noon"]).is_err());
        assert!(parse(&["--zap-devel=false"]).logging().sampling);
        assert!(!parse(&[]).logging().sampling);
        let everything = parse(&["--zap-devel=false", "--zap-log-level=5"]);
        assert!(!everything.logging().sampling);
    }

    #[test]
    fn namespaces_are_separated_by_commas() {
        assert_eq!(parse(&["--watch-namespace=a, b,"]).namespaces(), ["a", "b"]);
        assert!(parse(&["--watch-namespace="]).namespaces().is_empty());
    }

    #[test]
    fn negative_grace_period_is_unlimited() {
        let grace = |arguments: &[&str]| ManagerOptions::from(&parse(arguments)).graceful_shutdown_timeout;
        assert_eq!(grace(&[]), Some(Duration::from_secs(30)));
        assert_eq!(grace(&["--graceful-shutdown-seconds=0"]), Some(Duration::ZERO));
        assert_eq!(grace(&["--graceful-shutdown-seconds", "-1"]), None);
    }

    #[test]
    fn unknown_log_level_is_an_error() {
        assert!(Cli::try_parse_from(["operator", "--zap-log-level=loud"]).is_err());
    }
}
