//! `operatorhubv2`: checks the data of an operator that OperatorHub.io shows.

use apimachinery::go::url;
use serde_json::Value;

use super::{Options, capabilities, categories, csv, removed_apis};
use crate::bundle::{Bundle, text};
use crate::catalog::version::Version;
use crate::finding::{Finding, Findings, Fix, Level};

const NAME: &str = "operatorhubv2";
const MEDIA_TYPES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/svg+xml"];

pub(super) fn validate(bundle: &Bundle, options: &Options) -> Vec<Finding> {
    let mut findings = Findings::new(NAME);
    check_provider(bundle, &mut findings);
    check_maintainers(bundle, &mut findings);
    check_links(bundle, &mut findings);
    let version = Version::parse(text(&bundle.csv, "/spec/version"));
    if version.is_ok_and(|version| !version.is_zero()) {
    } else {
        let detail = "csv.Spec.Version must be set";
        findings.csv(Level::Error, bundle, detail, "/spec/version");
    }
    check_icon(bundle, &mut findings);
    findings.list.extend(csv::min_kube_version(NAME, bundle));
    findings
        .list
        .extend(removed_apis::findings(NAME, bundle, options));
    findings.list
}

/// Runs the deprecated validator `operatorhub`, which three other validators replace.
pub(super) fn deprecated(bundle: &Bundle, options: &Options) -> Vec<Finding> {
    let mut findings = Findings::new("operatorhub");
    let detail = "The \"operatorhub\" validator is deprecated; for equivalent validation use \"operatorhub/v2\", \"standardcapabilities\" and \"standardcategories\" validators";
    let at = (bundle.csv_manifest(), "");
    findings.add(
        Level::Warning,
        "DeprecatedValidator",
        Some(String::new()),
        detail,
        at,
    );
    let parts = [
        validate(bundle, options),
        capabilities::validate(bundle, options),
        categories::validate(bundle, options),
    ];
    findings.list.extend(parts.into_iter().flatten());
    findings.list
}

fn check_provider(bundle: &Bundle, findings: &mut Findings) {
    if text(&bundle.csv, "/spec/provider/name").trim().is_empty() {
        let detail = "csv.Spec.Provider.Name not specified";
        findings.csv(Level::Error, bundle, detail, "/spec/provider");
    }
}

fn check_maintainers(bundle: &Bundle, findings: &mut Findings) {
    for (index, maintainer) in bundle.csv_list("/spec/maintainers").iter().enumerate() {
        let pointer = format!("/spec/maintainers/{index}");
        let (name, email) = (text(maintainer, "/name"), text(maintainer, "/email"));
        if name.is_empty() || email.is_empty() {
            let detail = "csv.Spec.Maintainers elements should contain both name and email";
            findings.csv(Level::Error, bundle, detail, &pointer);
        }
        if !email.is_empty()
            && let Err(reason) = check_address(email)
        {
            let detail = format!("csv.Spec.Maintainers email {email} is invalid: {reason}");
            findings.csv(Level::Error, bundle, detail, &format!("{pointer}/email"));
        }
    }
}

/// Checks an RFC 5322 address like Go's `net/mail`: `user@host`, or a name and the address in angle brackets.
fn check_address(text: &str) -> Result<(), String> {
    let fail = |reason: &str| Err(format!("mail: {reason}"));
    let text = text.trim();
    if text.is_empty() {
        return fail("no address");
    }
    let address = match text.rsplit_once('<') {
        None => text,
        Some((_, rest)) => match rest.split_once('>') {
            None => return fail("unclosed angle-addr"),
            Some((address, "")) => address.trim(),
            Some(_) => return fail("expected single address"),
        },
    };
    let Some((user, host)) = address.rsplit_once('@') else {
        return fail("missing '@' or angle-addr");
    };
    let is_atom = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c))
    };
    let is_dotted = |part: &str| part.split('.').all(is_atom);
    let is_quoted = user.len() > 1 && user.starts_with('"') && user.ends_with('"');
    if !is_dotted(user) && !is_quoted {
        return fail(if user.is_empty() {
            "no angle-addr"
        } else {
            "missing '@' or angle-addr"
        });
    }
    let is_literal = host.starts_with('[') && host.ends_with(']');
    if !is_dotted(host) && !is_literal {
        // The Go parser treats anything except `user@host` as a name, and expects the address after it.
        return fail("missing '@' or angle-addr");
    }
    Ok(())
}

fn check_links(bundle: &Bundle, findings: &mut Findings) {
    for (index, link) in bundle.csv_list("/spec/links").iter().enumerate() {
        let pointer = format!("/spec/links/{index}");
        let (name, address) = (text(link, "/name"), text(link, "/url"));
        if name.is_empty() || address.is_empty() {
            let detail = "csv.Spec.Links elements should contain both name and url";
            findings.csv(Level::Error, bundle, detail, &pointer);
        }
        if !address.is_empty()
            && let Err(reason) = url::parse_request_uri(address)
        {
            let detail = format!("csv.Spec.Links url {address} is invalid: {reason}");
            findings.csv(Level::Error, bundle, detail, &format!("{pointer}/url"));
        }
    }
}

fn check_icon(bundle: &Bundle, findings: &mut Findings) {
    let icons = bundle.csv_at("/spec/icon").and_then(Value::as_array);
    let icon = match icons.map(Vec::as_slice) {
        None => {
            findings.csv(Level::Warning, bundle, "csv.Spec.Icon not specified", "/spec");
            return;
        }
        Some([icon]) => icon,
        Some(_) => {
            let detail = "csv.Spec.Icon should only have one element";
            findings.csv(Level::Error, bundle, detail, "/spec/icon");
            return;
        }
    };
    let media_type = text(icon, "/mediatype");
    if text(icon, "/base64data").is_empty() || media_type.is_empty() {
        let detail = "csv.Spec.Icon elements should contain both data and mediatype";
        findings.csv(Level::Error, bundle, detail, "/spec/icon/0");
    }
    if !media_type.is_empty() && !MEDIA_TYPES.contains(&media_type) {
        let detail = format!("csv.Spec.Icon {media_type} does not have a valid mediatype");
        let finding = findings.csv(Level::Error, bundle, detail, "/spec/icon/0/mediatype");
        let right = MEDIA_TYPES
            .iter()
            .find(|right| right.eq_ignore_ascii_case(media_type));
        finding.fix = right.map(|right| Fix {
            from: media_type.to_owned(),
            to: (*right).to_owned(),
        });
    }
}
