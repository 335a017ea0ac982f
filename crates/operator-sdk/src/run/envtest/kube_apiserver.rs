//! The embedded API server with the flags of kube-apiserver. Like kube-apiserver, it runs no controllers.

mod access;
mod audit;
mod flags;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use operator_apiserver::{
    AdmissionConfiguration, ApiServer, Authorization, Builder, FeatureGates, ListenOptions, RuntimeConfig,
    ServerIdentity, ServiceNetwork,
};

use super::bad_value;
use crate::args::go_flags::GoFlags;
use crate::failure::Failure;
use crate::process::cluster::{ClusterError, described};
use crate::process::signal::Ends;
use crate::report::Report;

pub(in crate::run) use self::access::Files;
pub(super) use self::flags::FLAGS;

pub(super) fn run(given: &GoFlags, report: &Report) -> Result<(), Failure> {
    check_flags(given, report)?;
    let options = listen_options(given)?;
    let builder = described(ApiServer::builder())
        .service_network(service_network(given)?)
        .min_request_timeout(min_request_timeout(given)?);
    let builder = with_proxy_client(builder, given)?;
    let (builder, files) = with_access(builder, given, Authorization::AlwaysAllow, report)?;
    crate::run::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        let server = builder.build().map_err(ClusterError::Listen)?;
        let listener = server.listen(options).await.map_err(ClusterError::Listen)?;
        report.progress(&format!("serving on https://{}", listener.local_addr()));
        tokio::select! {
            _ = ends.next() => {}
            () = files.follow(server.clone(), report) => {}
        }
        server.shutdown();
        listener.shutdown().await;
        Ok(())
    })
}

/// The beginnings of the names of flags that `cluster up` has, too.
const ACCESS: [&str; 14] = [
    "admission-control-config-file",
    "anonymous-auth",
    "api-audiences",
    "audit-",
    "authentication-",
    "authorization-",
    "disable-admission-plugins",
    "enable-admission-plugins",
    "feature-gates",
    "oidc-",
    "requestheader-",
    "runtime-config",
    "service-account-issuer",
    "token-auth-file",
];

/// Parses flags of kube-apiserver that are about access to the server.
pub(in crate::run) fn parse_access_flags(arguments: &[String]) -> Result<GoFlags, Failure> {
    let given = GoFlags::parse(FLAGS, arguments.iter().cloned());
    let given = given.map_err(|error| Failure {
        message: error.to_string(),
        hint: Some(HINT.to_owned()),
    })?;
    let is_access = |name: &str| ACCESS.iter().any(|access| name.starts_with(access));
    let other = given.names().find(|name| !is_access(name));
    let other = other.or(given.help.then_some("help"));
    match other.or(given.version.then_some("version")) {
        None => Ok(given),
        Some(name) => Err(Failure {
            message: format!("--{name} of kube-apiserver is not a flag of access"),
            hint: Some(HINT.to_owned()),
        }),
    }
}

const HINT: &str = "see `operator-sdk cluster up --help` for the flags after `--`";

/// Configures authentication, authorization, admission, auditing, and the served APIs.
pub(in crate::run) fn with_access(
    builder: Builder,
    given: &GoFlags,
    default: Authorization,
    report: &Report,
) -> Result<(Builder, Files), Failure> {
    let builder = builder
        .anonymous_auth(given.value("anonymous-auth") != Some("false"))
        .disable_admission_plugins(disabled_plugins(given, report)?)
        .enable_admission_plugins(given.parts("enable-admission-plugins").map(str::to_owned))
        .runtime_config(parsed(given, "runtime-config", RuntimeConfig::parse)?)
        .feature_gates(parsed(given, "feature-gates", FeatureGates::parse)?)
        .flags(
            given
                .names()
                .map(|name| (name.to_owned(), flag_text(given, name))),
        );
    let builder = with_tokens(builder, given)?;
    let (builder, files) = access::configure(builder, given, default)?;
    let builder = audit::configure(builder, given)?;
    let builder = with_admission(builder, given, report)?;
    Ok((builder, files))
}

/// Returns the value of a flag in the format of `/flagz`: lists are in brackets.
fn flag_text(given: &GoFlags, name: &str) -> String {
    let is_list = FLAGS
        .iter()
        .any(|flag| flag.name == name && flag.type_ == "strings");
    if is_list {
        let parts: Vec<&str> = given.parts(name).collect();
        return format!("[{}]", parts.join(","));
    }
    given.value(name).unwrap_or_default().to_owned()
}

fn min_request_timeout(given: &GoFlags) -> Result<Duration, Failure> {
    const FLAG: &str = "min-request-timeout";
    let seconds = given.value(FLAG).map(str::parse).transpose();
    let seconds = seconds.map_err(|error| bad_value(FLAG, given.value(FLAG).unwrap_or_default(), error))?;
    Ok(Duration::from_secs(seconds.unwrap_or(1800)))
}

/// Parses a list of settings.
fn parsed<'g, T>(
    given: &'g GoFlags,
    flag: &'static str,
    parse: impl FnOnce(Vec<&'g str>) -> Result<T, String>,
) -> Result<T, Failure> {
    let parts: Vec<&str> = given.parts(flag).collect();
    parse(parts).map_err(|why| bad_value(flag, given.value(flag).unwrap_or_default(), why))
}

/// Rejects flags that would be unsafe to ignore, and prints a warning for ignored ones.
fn check_flags(given: &GoFlags, report: &Report) -> Result<(), Failure> {
    for flag in given.names() {
        let reason = |table: &[(&str, &'static str)]| {
            let row = table.iter().find(|(name, _)| *name == flag);
            row.map(|(_, why)| *why)
        };
        if let Some(why) = reason(flags::REFUSED) {
            return Err(Failure {
                message: format!("--{flag} is not supported: {why}"),
                hint: Some(format!("omit --{flag}")),
            });
        }
        if let Some(why) = reason(flags::WARNED) {
            report.progress(&format!("warning: --{flag} is ignored: {why}"));
        }
    }
    Ok(())
}

/// Returns the ranges of service addresses.
fn service_network(given: &GoFlags) -> Result<ServiceNetwork, Failure> {
    const RANGE: &str = "service-cluster-ip-range";
    match given.value(RANGE) {
        None => Ok(ServiceNetwork::default()),
        Some(ranges) => ranges.parse().map_err(|error| bad_value(RANGE, ranges, error)),
    }
}

/// Returns the plug-ins to disable. Plug-ins that are enabled by default need not be enabled; other plug-ins are not
/// supported.
fn disabled_plugins(given: &GoFlags, report: &Report) -> Result<Vec<String>, Failure> {
    const ENABLE: &str = "enable-admission-plugins";
    const DISABLE: &str = "disable-admission-plugins";
    let known = |flag, plugin: &str| {
        let row = flags::PLUGINS.iter().find(|(name, _)| *name == plugin);
        row.ok_or_else(|| bad_value(flag, plugin, "unknown admission plug-in"))
    };
    for plugin in given.parts(ENABLE) {
        let (name, by_default) = known(ENABLE, plugin)?;
        let is_supported = matches!(
            *name,
            "AlwaysAdmit" | "EventRateLimit" | "ImagePolicyWebhook" | "NodeRestriction"
        );
        if !by_default && !is_supported {
            report.progress(&format!("warning: the admission plug-in {name} is not supported"));
        }
        if given.parts(DISABLE).any(|disabled| disabled == plugin) {
            let why = format!("--{ENABLE} enables it");
            return Err(bad_value(DISABLE, plugin, why));
        }
    }
    for plugin in given.parts(DISABLE) {
        known(DISABLE, plugin)?;
    }
    Ok(given.parts(DISABLE).map(str::to_owned).collect())
}

/// Configures admission plug-ins.
fn with_admission(builder: Builder, given: &GoFlags, report: &Report) -> Result<Builder, Failure> {
    const FILE: &str = "admission-control-config-file";
    let Some(path) = given.value(FILE) else {
        return Ok(builder);
    };
    let directory = Path::new(path).parent().unwrap_or(Path::new("."));
    let configuration = AdmissionConfiguration::parse(&text(FILE, path)?, directory);
    let configuration = configuration.map_err(|why| bad_value(FILE, path, why))?;
    for plugin in configuration.unsupported() {
        report.progress(&format!(
            "warning: the configuration of the admission plug-in {plugin} in --{FILE} is ignored"
        ));
    }
    Ok(builder.admission(configuration))
}

/// Configures tokens: the signing keys, and static tokens.
fn with_tokens(mut builder: Builder, given: &GoFlags) -> Result<Builder, Failure> {
    let mut issuers = given.parts(ISSUER);
    if let Some(issuer) = issuers.next() {
        builder = builder.service_account_issuer(issuer);
    }
    for issuer in issuers {
        builder = builder.accepted_service_account_issuer(issuer);
    }
    builder = builder.api_audiences(given.parts(AUDIENCES));
    for path in given.parts(KEY_FILE) {
        builder = builder.service_account_key(read(KEY_FILE, Path::new(path))?);
    }
    if let Some(path) = given.value(SIGNING_KEY_FILE) {
        builder = builder.service_account_signing_key(read(SIGNING_KEY_FILE, Path::new(path))?);
    }
    if let Some(path) = given.value(TOKEN_FILE) {
        let users = read(TOKEN_FILE, Path::new(path))?;
        for line in String::from_utf8_lossy(&users).lines() {
            let mut fields = line.splitn(4, ',').map(|field| field.trim().trim_matches('"'));
            let (Some(token), Some(user)) = (fields.next(), fields.next()) else {
                continue;
            };
            let uid = fields.next().unwrap_or_default();
            let groups = fields.next().unwrap_or_default().split(',');
            let groups = groups.map(str::trim).filter(|group| !group.is_empty());
            builder = builder.token_with_uid(token, user, uid, groups);
        }
    }
    Ok(builder)
}

/// Configures the client certificate for extension API servers.
fn with_proxy_client(builder: Builder, given: &GoFlags) -> Result<Builder, Failure> {
    const CERTIFICATE: &str = "proxy-client-cert-file";
    const KEY: &str = "proxy-client-key-file";
    match given.value(CERTIFICATE).zip(given.value(KEY)) {
        None => Ok(builder),
        Some((certificate, key)) => {
            let certificate = read(CERTIFICATE, Path::new(certificate))?;
            Ok(builder.proxy_client(certificate, read(KEY, Path::new(key))?))
        }
    }
}

const AUDIENCES: &str = "api-audiences";
const ISSUER: &str = "service-account-issuer";
const KEY_FILE: &str = "service-account-key-file";
const SIGNING_KEY_FILE: &str = "service-account-signing-key-file";
const TOKEN_FILE: &str = "token-auth-file";

fn listen_options(given: &GoFlags) -> Result<ListenOptions, Failure> {
    let mut options = ListenOptions::at(address(given)?);
    options.identity = identity(given)?;
    Ok(options)
}

fn address(given: &GoFlags) -> Result<SocketAddr, Failure> {
    let port = match given.value("secure-port") {
        None => 6443,
        Some(text) => text
            .parse()
            .map_err(|error| bad_value("secure-port", text, error))?,
    };
    let ip = match given.value("bind-address") {
        None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Some(text) => text
            .parse()
            .map_err(|error| bad_value("bind-address", text, error))?,
    };
    Ok(SocketAddr::new(ip, port))
}

/// Returns the certificate of the flags. Without one the server creates its own.
fn identity(given: &GoFlags) -> Result<Option<ServerIdentity>, Failure> {
    let Some((flag, certificate, key)) = certificate_files(given) else {
        return match given.value("client-ca-file") {
            None => Ok(None),
            Some(path) => Err(bad_value(
                "client-ca-file",
                path,
                "it needs --cert-dir or --tls-cert-file",
            )),
        };
    };
    if flag == "cert-dir" && !(certificate.exists() && key.exists()) {
        make_certificate(&certificate, &key, address(given)?)?;
    }
    let authorities = given.value("client-ca-file");
    Ok(Some(ServerIdentity {
        certificate: read(flag, &certificate)?,
        key: read(flag, &key)?,
        client_authorities: authorities
            .map(|path| read("client-ca-file", Path::new(path)))
            .transpose()?,
    }))
}

/// Writes a self-signed certificate and its key, as kube-apiserver does if they are missing.
fn make_certificate(certificate: &Path, key: &Path, address: SocketAddr) -> Result<(), Failure> {
    let names = [address.ip().to_string()];
    let made = ServerIdentity::self_signed(&names).map_err(ClusterError::Listen)?;
    let write = |path: &Path, text: &[u8], mode: u32| {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(mode);
        options
            .open(path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text))
    };
    let folder = certificate.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder)
        .and_then(|()| write(key, &made.key, 0o600))
        .and_then(|()| write(certificate, &made.certificate, 0o644));
    written.map_err(|error| Failure {
        message: format!("cannot write a certificate to {}: {error}", folder.display()),
        hint: Some("correct --cert-dir".to_owned()),
    })
}

/// Returns the flag of the server's certificate, the certificate file and the key file.
fn certificate_files(given: &GoFlags) -> Option<(&'static str, PathBuf, PathBuf)> {
    let files = given
        .value("tls-cert-file")
        .zip(given.value("tls-private-key-file"));
    if let Some((certificate, key)) = files {
        return Some(("tls-cert-file", certificate.into(), key.into()));
    }
    let directory = Path::new(given.value("cert-dir")?);
    Some((
        "cert-dir",
        directory.join("apiserver.crt"),
        directory.join("apiserver.key"),
    ))
}

fn text(flag: &str, path: &str) -> Result<String, Failure> {
    let bytes = read(flag, Path::new(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn duration(given: &GoFlags, flag: &'static str, default: Duration) -> Result<Duration, Failure> {
    match given.value(flag) {
        None => Ok(default),
        Some(text) => apimachinery::time::parse_timeout(text).map_err(|error| bad_value(flag, text, error)),
    }
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure {
        message: format!("cannot read {} of --{flag}: {error}", path.display()),
        hint: Some(format!("create the file, or correct --{flag}")),
    })
}
