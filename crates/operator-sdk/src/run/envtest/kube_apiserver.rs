//! The embedded API server behind the flags of kube-apiserver. No controllers run, as beside a real one alone.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use operator_apiserver::{ApiServer, Builder, ListenOptions, ServerIdentity};

use super::bad_value;
use crate::args::go_flags::{Flag, GoFlags};
use crate::process::cluster::ClusterError;
use crate::process::signal::Ends;
use crate::report::{Failure, Report};

/// The flags that test environments pass.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "advertise-address",
        type_: "ip",
        help: "Accepted.",
    },
    Flag {
        name: "allow-privileged",
        type_: "",
        help: "Accepted; privileged containers are always allowed.",
    },
    Flag {
        name: "authorization-mode",
        type_: "strings",
        help: "Accepted; RBAC authorises.",
    },
    Flag {
        name: "bind-address",
        type_: "ip",
        help: "The address to listen on. (default 0.0.0.0)",
    },
    Flag {
        name: "cert-dir",
        type_: "string",
        help: "Where apiserver.crt and apiserver.key are.",
    },
    Flag {
        name: "client-ca-file",
        type_: "string",
        help: "The authorities of client certificates, in PEM.",
    },
    Flag {
        name: "disable-admission-plugins",
        type_: "strings",
        help: "Plug-ins to turn off.",
    },
    Flag {
        name: "enable-admission-plugins",
        type_: "strings",
        help: "Accepted.",
    },
    Flag {
        name: "etcd-servers",
        type_: "strings",
        help: "Accepted; objects are held in memory.",
    },
    Flag {
        name: "feature-gates",
        type_: "mapStringBool",
        help: "Accepted.",
    },
    Flag {
        name: "runtime-config",
        type_: "mapStringString",
        help: "Accepted.",
    },
    Flag {
        name: "secure-port",
        type_: "int",
        help: "The port of HTTPS. (default 6443)",
    },
    Flag {
        name: "service-account-issuer",
        type_: "strings",
        help: "Whom tokens of service accounts name as their issuer; the first one is used.",
    },
    Flag {
        name: "service-account-key-file",
        type_: "strings",
        help: "Files with keys, in PEM, that tokens of service accounts are checked with.",
    },
    Flag {
        name: "service-account-signing-key-file",
        type_: "string",
        help: "The key, in PEM, that tokens of service accounts are signed with.",
    },
    Flag {
        name: "service-cluster-ip-range",
        type_: "string",
        help: "Accepted; 10.0.0.0/24 is used.",
    },
    Flag {
        name: "tls-cert-file",
        type_: "string",
        help: "The server's certificate, in PEM.",
    },
    Flag {
        name: "tls-private-key-file",
        type_: "string",
        help: "The key of --tls-cert-file, in PEM.",
    },
    Flag {
        name: "token-auth-file",
        type_: "string",
        help: "Users with fixed bearer tokens, as lines of token,user,uid,\"group1,group2\".",
    },
    Flag {
        name: "v",
        type_: "int",
        help: "Accepted; RUST_LOG says how much is logged.",
    },
];

pub(super) fn run(given: &GoFlags, report: &Report) -> Result<(), Failure> {
    let options = listen_options(given)?;
    let disabled = given.value("disable-admission-plugins").unwrap_or_default();
    let disabled = disabled.split(',').map(str::trim);
    let builder = with_tokens(ApiServer::builder().disable_admission_plugins(disabled), given)?;
    crate::run::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        let server = builder.build().map_err(ClusterError::Listen)?;
        let listener = server.listen(options).await.map_err(ClusterError::Listen)?;
        report.progress(&format!("serving on https://{}", listener.local_addr()));
        ends.next().await;
        server.shutdown();
        listener.shutdown().await;
        Ok(())
    })
}

/// What the server has to know of tokens: who signs them, and those that never change.
fn with_tokens(mut builder: Builder, given: &GoFlags) -> Result<Builder, Failure> {
    let parts = |flag| given.value(flag).into_iter().flat_map(|value| value.split(','));
    if let Some(issuer) = parts(ISSUER).next() {
        builder = builder.service_account_issuer(issuer);
    }
    for path in parts(KEY_FILE) {
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
            let groups = fields.nth(1).unwrap_or_default().split(',');
            builder = builder.token(token, user, groups.filter(|group| !group.is_empty()));
        }
    }
    Ok(builder)
}

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

/// The certificate that the flags name; without one the server makes its own.
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
    let authorities = given.value("client-ca-file");
    Ok(Some(ServerIdentity {
        certificate: read(flag, &certificate)?,
        key: read(flag, &key)?,
        client_authorities: authorities
            .map(|path| read("client-ca-file", Path::new(path)))
            .transpose()?,
    }))
}

/// The flag that names the server's certificate, the certificate and its key.
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

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure {
        message: format!("cannot read {} of --{flag}: {error}", path.display()),
        hint: Some(format!("put the file there, or correct --{flag}")),
    })
}
