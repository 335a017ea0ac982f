//! The flags of authentication and authorization.

use std::path::{Path, PathBuf};
use std::time::Duration;

use operator_apiserver::{
    AbacPolicies, ApiServer, AuthenticationConfiguration, Authorization, AuthorizationConfiguration,
    AuthorizationWebhook, Builder, FrontProxy, OidcOptions, TokenWebhook,
};

use super::{ISSUER, bad_value, duration, read, text};
use crate::args::go_flags::GoFlags;
use crate::failure::Failure;
use crate::report::Report;

const AUTHENTICATION: &str = "authentication-config";
const AUTHORIZATION: &str = "authorization-config";
const MODE: &str = "authorization-mode";
const POLICIES: &str = "authorization-policy-file";
const WEBHOOK: &str = "authorization-webhook-config-file";
/// The flags that `--authorization-config` replaces.
const WEBHOOK_FLAGS: [&str; 4] = [
    WEBHOOK,
    "authorization-webhook-version",
    "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl",
];

/// The interval at which the files are checked.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// The configuration files, which the server reads again when they change.
pub(in crate::run) struct Files {
    authorization: Option<Watched>,
    authentication: Option<Watched>,
    policies: Option<AbacPolicies>,
    issuers: Vec<String>,
}

/// A file and its last content.
struct Watched {
    path: PathBuf,
    content: String,
}

impl Watched {
    /// Returns the content if it has changed.
    fn changed(&mut self) -> Option<String> {
        let content = std::fs::read_to_string(&self.path).ok()?;
        if content == self.content {
            return None;
        }
        self.content.clone_from(&content);
        Some(content)
    }
}

/// Configures everything that decides who a user is and what the user may do; `default` is the authorizer without flags.
pub(super) fn configure(
    builder: Builder,
    given: &GoFlags,
    default: Authorization,
) -> Result<(Builder, Files), Failure> {
    let mut files = Files {
        authorization: None,
        authentication: None,
        policies: policies(given)?,
        issuers: given.parts(ISSUER).map(str::to_owned).collect(),
    };
    let builder = builder.authorizers(authorizers(given, &mut files, default)?);
    let builder = with_tokens(builder, given, &mut files)?;
    let builder = match token_webhook(given)? {
        Some(webhook) => builder.token_webhook(webhook),
        None => builder,
    };
    let builder = match front_proxy(given)? {
        Some(proxy) => builder.front_proxy(proxy),
        None => builder,
    };
    Ok((builder, files))
}

fn policies(given: &GoFlags) -> Result<Option<AbacPolicies>, Failure> {
    let Some(path) = given.value(POLICIES) else {
        return Ok(None);
    };
    let policies = AbacPolicies::parse(&text(POLICIES, path)?);
    policies.map(Some).map_err(|why| bad_value(POLICIES, path, why))
}

/// Returns the authorizers in the order of their modes, or of the file; without either the default one.
fn authorizers(
    given: &GoFlags,
    files: &mut Files,
    default: Authorization,
) -> Result<Vec<Authorization>, Failure> {
    if let Some(path) = given.value(AUTHORIZATION) {
        let other = given
            .names()
            .any(|flag| flag == MODE || WEBHOOK_FLAGS.contains(&flag));
        if other {
            let why =
                "it cannot be specified together with --authorization-mode or --authorization-webhook-*";
            return Err(bad_value(AUTHORIZATION, path, why));
        }
        let content = text(AUTHORIZATION, path)?;
        let authorizers = read_authorizers(&content, files.policies.as_ref());
        let authorizers = authorizers.map_err(|why| bad_value(AUTHORIZATION, path, why))?;
        files.authorization = Some(Watched {
            path: path.into(),
            content,
        });
        return Ok(authorizers);
    }
    let mut authorizers = Vec::new();
    for mode in given.parts(MODE) {
        let authorizer = match mode {
            "AlwaysAllow" => Authorization::AlwaysAllow,
            "AlwaysDeny" => Authorization::AlwaysDeny,
            "Node" => Authorization::Node,
            "RBAC" => Authorization::Rbac,
            "ABAC" => {
                let policies = files.policies.clone();
                let missing = || bad_value(MODE, mode, format!("it needs --{POLICIES}"));
                Authorization::Abac(policies.ok_or_else(missing)?)
            }
            "Webhook" => Authorization::Webhook(Box::new(authorization_webhook(given)?)),
            _ => return Err(bad_value(MODE, mode, "it is not a valid mode")),
        };
        if given.parts(MODE).filter(|other| *other == mode).count() > 1 {
            return Err(bad_value(MODE, mode, "the mode is specified more than once"));
        }
        authorizers.push(authorizer);
    }
    for (flag, mode) in [(WEBHOOK, "Webhook"), (POLICIES, "ABAC")] {
        if let Some(path) = given.value(flag)
            && !given.parts(MODE).any(|given| given == mode)
        {
            return Err(bad_value(flag, path, format!("it needs --{MODE}={mode}")));
        }
    }
    if authorizers.is_empty() {
        authorizers.push(default);
    }
    Ok(authorizers)
}

fn read_authorizers(content: &str, policies: Option<&AbacPolicies>) -> Result<Vec<Authorization>, String> {
    AuthorizationConfiguration::parse(content)?.authorizers(policies)
}

fn authorization_webhook(given: &GoFlags) -> Result<AuthorizationWebhook, Failure> {
    let Some(path) = given.value(WEBHOOK) else {
        return Err(bad_value(MODE, "Webhook", format!("it needs --{WEBHOOK}")));
    };
    let mut webhook = AuthorizationWebhook::new(text(WEBHOOK, path)?);
    let [_, version, authorized, unauthorized] = WEBHOOK_FLAGS;
    given
        .value(version)
        .unwrap_or("v1beta1")
        .clone_into(&mut webhook.version);
    webhook.authorized_ttl = duration(given, authorized, webhook.authorized_ttl)?;
    webhook.unauthorized_ttl = duration(given, unauthorized, webhook.unauthorized_ttl)?;
    Ok(webhook)
}

fn with_tokens(builder: Builder, given: &GoFlags, files: &mut Files) -> Result<Builder, Failure> {
    let oidc = given.names().find(|flag| flag.starts_with("oidc-"));
    let Some(path) = given.value(AUTHENTICATION) else {
        return match oidc {
            None => Ok(builder),
            Some(flag) => {
                let configuration =
                    AuthenticationConfiguration::of_flags(&oidc_options(given)?, &files.issuers);
                let refuse = |why: String| bad_value(flag, given.value(flag).unwrap_or_default(), why);
                Ok(builder.authentication(configuration.map_err(refuse)?))
            }
        };
    };
    let refuse = |why: String| bad_value(AUTHENTICATION, path, why);
    if oidc.is_some() {
        let why = "authentication-config file and oidc-* flags are mutually exclusive";
        return Err(refuse(why.to_owned()));
    }
    let content = text(AUTHENTICATION, path)?;
    let configuration = AuthenticationConfiguration::parse(&content, path, &files.issuers).map_err(refuse)?;
    if configuration.has_anonymous() && given.value("anonymous-auth").is_some() {
        let why = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file";
        return Err(refuse(why.to_owned()));
    }
    files.authentication = Some(Watched {
        path: path.into(),
        content,
    });
    Ok(builder.authentication(configuration))
}

fn oidc_options(given: &GoFlags) -> Result<OidcOptions, Failure> {
    const AUTHORITY: &str = "oidc-ca-file";
    const CLAIMS: &str = "oidc-required-claim";
    let value = |flag: &str| given.value(flag).unwrap_or_default().to_owned();
    let authority = given.value(AUTHORITY).map(|path| text(AUTHORITY, path));
    let claims: Result<Vec<(String, String)>, Failure> = given
        .parts(CLAIMS)
        .map(|claim| match claim.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(bad_value(CLAIMS, claim, "it must be formatted as key=value")),
        })
        .collect();
    Ok(OidcOptions {
        issuer_url: value("oidc-issuer-url"),
        client_id: value("oidc-client-id"),
        certificate_authority: authority.transpose()?.unwrap_or_default(),
        username_claim: given.value("oidc-username-claim").map(str::to_owned),
        username_prefix: value("oidc-username-prefix"),
        groups_claim: value("oidc-groups-claim"),
        groups_prefix: value("oidc-groups-prefix"),
        required_claims: claims?,
        signing_algorithms: given.parts("oidc-signing-algs").map(str::to_owned).collect(),
    })
}

fn token_webhook(given: &GoFlags) -> Result<Option<TokenWebhook>, Failure> {
    const FILE: &str = "authentication-token-webhook-config-file";
    let Some(path) = given.value(FILE) else {
        return Ok(None);
    };
    let mut webhook = TokenWebhook::new(text(FILE, path)?);
    let version = given.value("authentication-token-webhook-version");
    version.unwrap_or("v1beta1").clone_into(&mut webhook.version);
    webhook.cache_ttl = duration(given, "authentication-token-webhook-cache-ttl", webhook.cache_ttl)?;
    Ok(Some(webhook))
}

fn front_proxy(given: &GoFlags) -> Result<Option<FrontProxy>, Failure> {
    const AUTHORITIES: &str = "requestheader-client-ca-file";
    const CLIENTS: &str = "client-ca-file";
    let Some(path) = given.value(AUTHORITIES) else {
        return Ok(None);
    };
    let parts = |flag: &str| given.parts(flag).map(str::to_owned).collect::<Vec<_>>();
    let mut proxy = FrontProxy::new(read(AUTHORITIES, Path::new(path))?);
    proxy.allowed_names = parts("requestheader-allowed-names");
    proxy.username_headers = parts("requestheader-username-headers");
    proxy.uid_headers = parts("requestheader-uid-headers");
    proxy.group_headers = parts("requestheader-group-headers");
    proxy.extra_prefixes = parts("requestheader-extra-headers-prefix");
    let clients = given.value(CLIENTS).map(|path| text(CLIENTS, path)).transpose()?;
    let proxies = text(AUTHORITIES, path)?;
    let overlap = clients.is_some_and(|clients| {
        certificates(&clients).any(|one| certificates(&proxies).any(|other| one == other))
    });
    if overlap && proxy.allowed_names.is_empty() {
        let why = "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users";
        return Err(bad_value(AUTHORITIES, path, why));
    }
    Ok(Some(proxy))
}

/// Returns the contents of the PEM blocks of a file, without white space.
fn certificates(pem: &str) -> impl Iterator<Item = String> {
    let blocks = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
    blocks.filter_map(|block| {
        let (content, _) = block.split_once("-----END CERTIFICATE-----")?;
        Some(content.split_ascii_whitespace().collect())
    })
}

impl Files {
    /// Applies changes of the files to a running server, without end. A file that is not valid changes nothing.
    pub(in crate::run) async fn follow(mut self, server: ApiServer, report: &Report) {
        if self.authorization.is_none() && self.authentication.is_none() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(LOOK_AFTER).await;
            if let Some(content) = self.authorization.as_mut().and_then(Watched::changed) {
                let read = read_authorizers(&content, self.policies.as_ref());
                let set = read.and_then(|authorizers| {
                    let set = server.set_authorizers(authorizers);
                    set.map_err(|error| error.to_string())
                });
                tell(report, AUTHORIZATION, set);
            }
            if let Some(content) = self.authentication.as_mut().and_then(Watched::changed) {
                let read = AuthenticationConfiguration::parse(&content, AUTHENTICATION, &self.issuers);
                let set = read.and_then(|configuration| {
                    let set = server.set_authentication(&configuration);
                    set.map_err(|error| error.to_string())
                });
                tell(report, AUTHENTICATION, set);
            }
        }
    }
}

fn tell(report: &Report, flag: &str, set: Result<(), String>) {
    match set {
        Ok(()) => report.progress(&format!("reloaded the file of --{flag}")),
        Err(why) => report.progress(&format!(
            "warning: the changed file of --{flag} is ignored: {why}"
        )),
    }
}
