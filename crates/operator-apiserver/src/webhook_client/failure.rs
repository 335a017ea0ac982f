//! Errors of calls, with the texts of Go's HTTP client and of client-go's REST client.

use std::error::Error;
use std::io::{self, ErrorKind};

use apimachinery::go::quote;
use rustls::CertificateError;
use serde_json::Value;

use super::Answered;

/// Returns the object in the response to a review, which must have the same version and kind. A missing version or kind
/// defaults to that of the review.
pub(super) fn read_answer(answer: &Answered, review: &Value) -> Result<Value, String> {
    let (code, body) = (answer.code, &answer.body);
    if !(200..=206).contains(&code) {
        return Err(refusal(answer));
    }
    if body.is_empty() {
        return Err(format!(
            "0-length response with status code: {code} and content type: application/json"
        ));
    }
    let unreadable = |why: &str| format!("couldn't get version/kind; json parse error: {why}");
    let parsed = read(body).map_err(|why| unreadable(&why))?;
    if !parsed.value.is_object() {
        let why = crate::codec::body::cannot_unmarshal(
            &parsed.value,
            "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
        );
        return Err(unreadable(&why));
    }
    check_type(&parsed.value, review)?;
    Ok(parsed.value)
}

/// Parses JSON. The real client parses other texts as YAML; this function does so for a single word or sentence.
fn read(body: &[u8]) -> Result<apimachinery::json::Parsed, String> {
    apimachinery::json::parse(body).or_else(|why| {
        let text = std::str::from_utf8(body).map_err(|_| why.clone())?;
        let is_plain = text.len() <= SHOWN_BYTES_MAX && !text.contains(['{', '[', '\n', ':']);
        let parsed = is_plain
            .then(|| apimachinery::yaml::parse(text))
            .and_then(Result::ok);
        parsed.ok_or(why)
    })
}

/// The versions of reviews that the real client supports.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

fn check_type(answer: &Value, review: &Value) -> Result<(), String> {
    let text = apimachinery::object::text;
    let wanted = |field: &str| text(review, &[field]);
    let found = |field: &str| match text(answer, &[field]) {
        "" => wanted(field).to_owned(),
        found => found.to_owned(),
    };
    let (version, kind) = (found("apiVersion"), found("kind"));
    if version == wanted("apiVersion") && kind == wanted("kind") {
        return Ok(());
    }
    let short = |api_version: &str| api_version.rsplit('/').next().unwrap_or_default().to_owned();
    let group = |api_version: &str| api_version.split('/').next().unwrap_or_default().to_owned();
    let is_review = kind == wanted("kind")
        && group(&version) == group(wanted("apiVersion"))
        && REVIEW_VERSIONS.contains(&short(&version).as_str());
    if is_review {
        return Err(format!(
            "converting ({}.{kind}) to ({}.{kind}): unknown conversion",
            short(&version),
            short(wanted("apiVersion"))
        ));
    }
    Err(format!(
        "no kind {} is registered for version {} in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:71\"",
        quote(&kind),
        quote(&version)
    ))
}

/// The maximum number of bytes of a response in errors; client-go reads no more.
const SHOWN_BYTES_MAX: usize = 2048;

/// Returns the error for an unsuccessful response.
fn refusal(answer: &Answered) -> String {
    let (code, body) = (answer.code, &answer.body);
    let parsed = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let text = |field: &str| apimachinery::object::text(&parsed, &[field]).to_owned();
    if text("kind") == "Status" && text("apiVersion") == "v1" && !text("message").is_empty() {
        return text("message");
    }
    let said = String::from_utf8_lossy(body.get(..SHOWN_BYTES_MAX).unwrap_or(body));
    let said = if answer.is_text { said.trim() } else { "" };
    match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 if said.is_empty() => "unknown".to_owned(),
        403 => said.to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        409 => "the server reported a conflict".to_owned(),
        415 => "the server was unable to process the request's media type".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request".to_owned(),
        500.. => {
            let said = if said.is_empty() { "unknown" } else { said };
            format!("an error on the server ({}) has prevented the request from succeeding", quote(said))
        }
        _ => format!("the server responded with the status code {code} but did not return more information"),
    }
}

/// Returns the error of a failed connection.
pub(super) fn of_dial(host: &str, port: u16, error: &io::Error) -> String {
    let address = if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    let why = match error.kind() {
        ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        ErrorKind::TimedOut => "connect: connection timed out".to_owned(),
        // Errors of the name resolution have no code.
        _ if error.raw_os_error().is_none() => return format!("dial tcp: lookup {host}: no such host"),
        _ => format!("connect: {error}"),
    };
    format!("dial tcp {address}: {why}")
}

/// Returns the error of a failed handshake.
pub(super) fn of_tls(error: &io::Error) -> String {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("tls: failed to verify certificate: x509: {}", of_certificate(why))
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        Some(rustls::Error::AlertReceived(alert)) => format!("remote error: tls: {alert:?}"),
        Some(other) => format!("tls: {other}"),
        None => of_io(error),
    }
}

fn of_certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let wanted = expected.to_str();
            if presented.is_empty() {
                return format!("certificate is not valid for any names, but wanted to match {wanted}");
            }
            // The library's format: `DnsName("a.b")`.
            let names = presented.iter().map(|name| {
                let inner = name.split_once('"').and_then(|(_, rest)| rest.split_once('"'));
                inner.map_or(name.as_str(), |(inner, _)| inner)
            });
            let names: Vec<&str> = names.collect();
            format!("certificate is valid for {}, not {wanted}", names.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns the error of a broken connection, or of a response that is not HTTP.
pub(super) fn of_http(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return "EOF".to_owned();
    }
    if error.is_parse() {
        return "net/http: HTTP/1.x transport connection broken: malformed HTTP response".to_owned();
    }
    of_body(error)
}

/// Returns an error for a truncated body, or the underlying error.
pub(super) fn of_body(error: &(dyn Error + 'static)) -> String {
    let mut cause = Some(error);
    while let Some(found) = cause {
        if let Some(broken) = found.downcast_ref::<io::Error>() {
            return of_io(broken);
        }
        if found
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_incomplete_message)
        {
            return "unexpected EOF".to_owned();
        }
        cause = found.source();
    }
    error.to_string()
}

fn of_io(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "EOF".to_owned(),
        ErrorKind::ConnectionReset => "read: connection reset by peer".to_owned(),
        ErrorKind::BrokenPipe => "write: broken pipe".to_owned(),
        _ => error.to_string(),
    }
}
