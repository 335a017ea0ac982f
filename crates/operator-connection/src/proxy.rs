//! [`Proxy`], the proxy of a connection. It is chosen as in client-go: the `proxy-url` of the kubeconfig, otherwise
//! `HTTPS_PROXY` or `HTTP_PROXY`, unless the server is in `NO_PROXY`.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use kube::config::Kubeconfig;

use crate::ConnectionError;

/// The default port of a SOCKS proxy.
const SOCKS_PORT: u16 = 1080;

/// The proxy settings of the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    pub(crate) http: String,
    pub(crate) https: String,
    pub(crate) no: String,
}

/// The proxy of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Proxy {
    /// An HTTP proxy with `CONNECT`, over a plain (`http`) or a TLS connection (`https`).
    Http(Intercept),
    /// A SOCKS 5 proxy. It resolves the name of the server.
    Socks(Uri, Intercept),
}

// === impl Environment ===

impl Environment {
    pub(crate) fn read() -> Self {
        let first = |names: [&str; 2]| {
            let mut values = names.into_iter().filter_map(|name| std::env::var(name).ok());
            values.find(|value| !value.is_empty()).unwrap_or_default()
        };
        Self {
            http: first(["HTTP_PROXY", "http_proxy"]),
            https: first(["HTTPS_PROXY", "https_proxy"]),
            no: first(["NO_PROXY", "no_proxy"]),
        }
    }

    /// Returns true if the address is from the environment, which kube's `Config` does not record.
    pub(crate) fn has(&self, address: &str) -> bool {
        let is_same = |other: &String| other.trim_end_matches('/') == address.trim_end_matches('/');
        is_same(&self.https) || is_same(&self.http)
    }

    /// Returns the proxy for a server, or `None` for servers on the loopback interface.
    ///
    /// # Errors
    /// Returns an error if the address of the proxy is invalid.
    pub(crate) fn proxy(&self, server: &Uri) -> Result<Option<Proxy>, ConnectionError> {
        let (variable, address) = match server.scheme_str() {
            Some("http") => ("HTTP_PROXY", &self.http),
            _ => ("HTTPS_PROXY", &self.https),
        };
        if address.is_empty() || is_loopback(server) {
            return Ok(None);
        }
        let no = without_ports(&self.no, port(server));
        if no.split(',').any(|entry| entry == "*") {
            return Ok(None);
        }
        match Matcher::builder()
            .all("http://proxy")
            .no(no)
            .build()
            .intercept(server)
        {
            Some(_) => Proxy::new(variable, address, server).map(Some),
            None => Ok(None),
        }
    }
}

/// Keeps the entries of `NO_PROXY` that are for this port, and removes the port from them.
fn without_ports(entries: &str, port: u16) -> String {
    let entries = entries
        .split(',')
        .map(str::trim)
        .filter_map(|entry| match entry.rsplit_once(':') {
            Some((host, number)) if !host.contains(':') || host.ends_with(']') => {
                let is_port = number.parse() == Ok(port);
                is_port.then(|| host.trim_matches(['[', ']']))
            }
            _ => Some(entry),
        });
    entries.collect::<Vec<_>>().join(",")
}

fn is_loopback(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn port(server: &Uri) -> u16 {
    let by_scheme = if server.scheme_str() == Some("http") {
        80
    } else {
        443
    };
    server.port_u16().unwrap_or(by_scheme)
}

// === impl Proxy ===

impl Proxy {
    /// Creates a proxy. `setting` is the origin of the address.
    ///
    /// # Errors
    /// Returns an error if the address does not have a supported scheme.
    pub(crate) fn new(setting: &'static str, address: &str, server: &Uri) -> Result<Self, ConnectionError> {
        let unusable = || ConnectionError::Proxy {
            setting,
            // The address may contain a password.
            address: address
                .rsplit_once('@')
                .map_or(address, |(_, host)| host)
                .to_owned(),
        };
        let matcher = Matcher::builder().all(address).build();
        let proxy = matcher.intercept(server).ok_or_else(unusable)?;
        match proxy.uri().scheme_str() {
            Some("http" | "https") => Ok(Self::Http(proxy)),
            Some("socks5" | "socks5h") => {
                let host = proxy.uri().host().unwrap_or_default();
                let port = proxy.uri().port_u16().unwrap_or(SOCKS_PORT);
                let uri = format!("socks5://{host}:{port}/").parse();
                Ok(Self::Socks(uri.map_err(|_| unusable())?, proxy))
            }
            _ => Err(unusable()),
        }
    }
}

/// Returns the `proxy-url` of the current context's cluster.
pub(crate) fn of_kubeconfig(kubeconfig: &Kubeconfig) -> Option<String> {
    let context = kubeconfig.current_context.as_ref()?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|named| named.name == *context)?.context.as_ref()?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters
        .find(|named| named.name == context.cluster)?
        .cluster
        .as_ref()?;
    cluster.proxy_url.clone().filter(|url| !url.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(no: &str, server: &str) -> Option<String> {
        let environment = Environment {
            http: "http://plain.example:3128".to_owned(),
            https: "http://user:secret@proxy.example:3128".to_owned(),
            no: no.to_owned(),
        };
        match environment.proxy(&server.parse().unwrap()).unwrap() {
            Some(Proxy::Http(proxy) | Proxy::Socks(_, proxy)) => Some(proxy.uri().to_string()),
            None => None,
        }
    }

    #[test]
    fn environment_proxy_respects_no_proxy() {
        let proxy = Some("http://proxy.example:3128/".to_owned());
        for (no, server, expected) in [
            ("", "https://10.0.0.1:6443/", &proxy),
            (
                "",
                "http://10.0.0.1:6443/",
                &Some("http://plain.example:3128/".to_owned()),
            ),
            ("", "https://localhost:6443/", &None),
            ("", "https://127.0.0.1:6443/", &None),
            ("", "https://[::1]:6443/", &None),
            ("*", "https://10.0.0.1:6443/", &None),
            ("10.0.0.0/8", "https://10.0.0.1:6443/", &None),
            ("10.1.0.0/16,192.168.0.0/16", "https://10.0.0.1:6443/", &proxy),
            (".svc, cluster.example", "https://api.cluster.example/", &None),
            ("10.0.0.1:6443", "https://10.0.0.1:6443/", &None),
            ("10.0.0.1:443", "https://10.0.0.1:6443/", &proxy),
            ("[fd00::1]:443", "https://[fd00::1]/", &None),
            ("fd00::/8", "https://[fd00::1]/", &None),
        ] {
            assert_eq!(&chosen(no, server), expected, "NO_PROXY={no} {server}");
        }
    }

    #[test]
    fn unsupported_address_is_an_error_without_its_password() {
        let server: Uri = "https://10.0.0.1:6443".parse().unwrap();
        for address in [
            "ftp://user:secret@proxy",
            "socks4://user:secret@proxy",
            "user:secret@",
        ] {
            let error = Proxy::new("HTTPS_PROXY", address, &server)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("HTTPS_PROXY") && !error.contains("secret"),
                "{error}"
            );
        }
        for (address, expected) in [
            ("proxy:3128", "http://proxy:3128/"),
            ("https://proxy", "https://proxy/"),
            ("socks5://proxy", "socks5://proxy:1080/"),
            ("socks5h://[fd00::1]:9", "socks5://[fd00::1]:9/"),
        ] {
            let found = match Proxy::new("proxy-url", address, &server).unwrap() {
                Proxy::Http(proxy) => proxy.uri().to_string(),
                Proxy::Socks(uri, _) => uri.to_string(),
            };
            assert_eq!(found, expected);
        }
    }
}
