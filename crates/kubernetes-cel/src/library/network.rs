//! Functions of URLs, IP addresses and CIDRs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use apimachinery::go::{ip, netip, quote, url};

use super::{Called, Context};
use crate::value::{Entries, List, Map, Opaque, Value};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>], context: &Context<'_>) -> Called<'a> {
    match args {
        [Value::String(text)] => of_text(function, text),
        [Value::Opaque(opaque), rest @ ..] => match (&**opaque, rest) {
            (Opaque::Url(url), []) => {
                let work = context.work;
                // A query has at most one list for every two characters.
                let bytes = if function == "getQuery" { 64 } else { 1 };
                let size = url.path.len().max(url.raw_query.len());
                if !work.spend(size / 4) || !work.make(size.saturating_mul(bytes)) {
                    return Some(Err("result is too large".to_owned()));
                }
                of_url(function, url).map(Ok)
            }
            (Opaque::Ip(ip), []) => of_ip(function, *ip).map(Ok),
            (Opaque::Cidr(cidr), rest) => of_cidr(function, *cidr, rest),
            _ => None,
        },
        _ => None,
    }
}

fn opaque<'a>(value: Opaque) -> Value<'a> {
    Value::Opaque(value.into())
}

fn of_text<'a>(function: &str, text: &str) -> Called<'a> {
    Some(match function {
        // The first parser checks the URL, but does not know fragments.
        "url" => url::parse_request_uri(text)
            .and_then(|_| url::parse_reference(text))
            .map(|url| opaque(Opaque::Url(url)))
            .map_err(|problem| format!("URL parse error during conversion from string: {problem}")),
        "isURL" => Ok(Value::Bool(url::parse_request_uri(text).is_ok())),
        "ip" => parse_ip(text).map(|ip| opaque(Opaque::Ip(ip))),
        "isIP" => Ok(Value::Bool(parse_ip(text).is_ok())),
        "ip.isCanonical" => parse_ip(text).map(|ip| Value::Bool(ip.to_string() == text)),
        "cidr" => parse_cidr(text).map(|cidr| opaque(Opaque::Cidr(cidr))),
        "isCIDR" => Ok(Value::Bool(parse_cidr(text).is_ok())),
        _ => return None,
    })
}

fn mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let shown = quote(text);
    let ip = netip::parse_addr(text)
        .map_err(|why| format!("IP Address {shown} parse error during conversion from string: {why}"))?;
    let ip = ip.ok_or_else(|| format!("IP address {shown} with zone value is not allowed"))?;
    if mapped(ip) {
        return Err(format!("IPv4-mapped IPv6 address {shown} is not allowed"));
    }
    Ok(ip)
}

/// Parses a CIDR. The API server's error contains the position twice.
fn parse_cidr(text: &str) -> Result<ip::Cidr, String> {
    let context = |why: String| format!("network address parse error during conversion from string: {why}");
    let cidr = netip::parse_prefix(text).map_err(|why| context(context(why)))?;
    if mapped(cidr.ip) {
        let why = format!("IPv4-mapped IPv6 address {} is not allowed", quote(text));
        return Err(context(why));
    }
    Ok(cidr)
}

fn of_url<'a>(function: &str, url: &url::Url) -> Option<Value<'a>> {
    Some(match function {
        "getScheme" => Value::text(url.scheme.clone()),
        "getHost" => Value::text(url.host.clone()),
        "getHostname" => Value::text(url.hostname().to_owned()),
        "getPort" => Value::text(url.port().to_owned()),
        "getEscapedPath" => Value::text(url.escaped_path()),
        "getQuery" => query(&url.raw_query),
        _ => return None,
    })
}

fn query<'a>(raw: &str) -> Value<'a> {
    let mut found: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
    for (key, value) in url::parse_query(raw) {
        found.entry(key).or_default().push(Value::text(value));
    }
    let mut entries = Entries::default();
    for (key, values) in found {
        // The keys of a map are unique.
        let _ = entries.insert(Value::text(key), Value::List(List::new(values)));
    }
    Value::Map(Map::new(entries))
}

fn of_ip<'a>(function: &str, ip: IpAddr) -> Option<Value<'a>> {
    Some(Value::Bool(match (function, ip) {
        ("family", ip) => return Some(Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
        ("isUnspecified", ip) => ip.is_unspecified(),
        ("isLoopback", ip) => ip.is_loopback(),
        ("isLinkLocalMulticast", IpAddr::V4(ip)) => matches!(ip.octets(), [224, 0, 0, _]),
        ("isLinkLocalMulticast", IpAddr::V6(ip)) => ip
            .segments()
            .first()
            .is_some_and(|first| first & 0xff0f == 0xff02),
        ("isLinkLocalUnicast", IpAddr::V4(ip)) => ip.is_link_local(),
        ("isLinkLocalUnicast", IpAddr::V6(ip)) => ip.is_unicast_link_local(),
        ("isGlobalUnicast", ip) => {
            let link_local = match ip {
                IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
                IpAddr::V6(ip) => ip.is_unicast_link_local(),
            };
            !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast() && !link_local
        }
        _ => return None,
    }))
}

fn of_cidr<'a>(function: &str, cidr: ip::Cidr, rest: &[Value<'a>]) -> Called<'a> {
    let text = match rest {
        [Value::String(text)] => Some(text.as_ref()),
        _ => None,
    };
    let other = match rest {
        [Value::Opaque(opaque)] => Some(&**opaque),
        _ => None,
    };
    Some(match (function, text, other) {
        ("ip", None, None) => Ok(opaque(Opaque::Ip(cidr.ip))),
        ("masked", None, None) => Ok(opaque(Opaque::Cidr(cidr.masked()))),
        ("prefixLength", None, None) => Ok(Value::Int(cidr.bits.into())),
        // A string that is not an address counts as an argument of the wrong type.
        ("containsIP", Some(text), _) => match parse_ip(text) {
            Ok(ip) => Ok(Value::Bool(cidr.contains_ip(ip))),
            Err(_) => return None,
        },
        ("containsIP", _, Some(Opaque::Ip(ip))) => Ok(Value::Bool(cidr.contains_ip(*ip))),
        ("containsCIDR", Some(text), _) => {
            parse_cidr(text).map(|other| Value::Bool(cidr.contains_cidr(other)))
        }
        ("containsCIDR", _, Some(Opaque::Cidr(other))) => Ok(Value::Bool(cidr.contains_cidr(*other))),
        _ => return None,
    })
}
