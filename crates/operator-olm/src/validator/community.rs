//! `community`: checks that bundles with APIs that OpenShift 4.9 no longer serves declare it.

use serde_json::Value;

use super::Options;
use super::removed_apis::{removed_info, removed_on_1_22};
use crate::bundle::Bundle;
use crate::catalog::version::Version;
use crate::finding::{Finding, Findings, Level};

const MAX_VERSION: &str = "olm.maxOpenShiftVersion";
const LABEL: &str = "com.redhat.openshift.versions";
/// The first version of OpenShift without the APIs, as a string and as major and minor number.
const WITHOUT: &str = "4.9";

pub(super) fn validate(bundle: &Bundle, options: &Options) -> Vec<Finding> {
    let mut findings = Findings::new("community");
    let Some(apis) = removed_on_1_22(bundle) else {
        return findings.list;
    };
    let info = removed_info(22);
    let mut errors: Vec<String> = check_property(bundle, &apis, &info).into_iter().collect();
    let mut warnings = Vec::new();
    match options.value("index-path") {
        "" => {
            // The Go program starts the warnings with a copy of the errors.
            warnings.clone_from(&errors);
            warnings.push(format!(
                "please, inform the path of its index image file via the the optional key values and the key index-path to allow this validator check the labels configuration or migrate the API(s) for {apis}. (e.g. index-path=./mypath/bundle.Dockerfile). This bundle is {info} "
            ));
        }
        path => errors.extend(match &options.index {
            Some(Ok(content)) => check_label(content, &apis, &info),
            Some(Err(reason)) => Some(not_found(path, reason)),
            None => Some(not_found(path, "the file was not read")),
        }),
    }
    for (level, details) in [(Level::Error, errors), (Level::Warning, warnings)] {
        for detail in details {
            findings.csv(level, bundle, detail, "/metadata/annotations");
        }
    }
    findings.list
}

fn not_found(path: &str, reason: &str) -> String {
    format!(
        "the index image in the path ({path}) was not found. Please, inform the path of the bundle operator index image via the the optional key values and the key index-path. (e.g. index-path=./mypath/bundle.Dockerfile). Error : {reason}"
    )
}

fn is_without(version: &Version) -> bool {
    (version.major, version.minor) >= (4, 9)
}

fn check_property(bundle: &Bundle, apis: &str, info: &str) -> Option<String> {
    let properties = bundle.csv_annotation("olm.properties").unwrap_or_default();
    if properties.is_empty() {
        return Some(format!(
            "csv.Annotations not specified {MAX_VERSION} for an OCP version < {WITHOUT}. This annotation is required to prevent the user from upgrading their OCP cluster before they have installed a version of their operator which is compatible with {WITHOUT}. This bundle is {info} which are no longer supported on {WITHOUT}. Migrate the API(s) for {apis} or use the annotation"
        ));
    }
    let Some(list) = property_list(properties) else {
        return Some(format!(
            "csv.Annotations has an invalid value specified for olm.properties. Please, check the value  ({properties}) and ensure that it is an array such as: \"olm.properties\": '[{{\"type\": \"key name\", \"value\": \"key value\"}}]'"
        ));
    };
    let Some((_, value)) = list.iter().find(|(kind, _)| kind == MAX_VERSION) else {
        return Some(format!(
            "csv.Annotations.olm.properties with the key `{MAX_VERSION}` and a value with an OCP version which is < {WITHOUT} is required for any operator bundle that is {info}. Migrate the API(s) for {apis} or use the annotation"
        ));
    };
    match Version::parse_tolerant(value) {
        Err(error) => Some(format!(
            "csv.Annotations.olm.properties has an invalid value.Unable to parse ({value}) using semver : {error}"
        )),
        Ok(version) if is_without(&version) => Some(format!(
            "csv.Annotations.olm.properties with the key and value for {MAX_VERSION} has the OCP version value {value} which is >= of {WITHOUT}. This bundle is {info}. Migrate the API(s) for {apis} or inform in this property an OCP version which is < {WITHOUT}"
        )),
        Ok(_) => None,
    }
}

/// Parses a list of types and values, which must be strings.
fn property_list(text: &str) -> Option<Vec<(String, String)>> {
    let parsed = apimachinery::json::parse(text.as_bytes()).ok()?.value;
    let field = |item: &Value, name: &str| match item.get(name) {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => None,
    };
    let property = |item: &Value| {
        item.is_object().then_some(())?;
        Some((field(item, "type")?, field(item, "value")?))
    };
    parsed.as_array()?.iter().map(property).collect()
}

/// Checks the version range in the label of a Dockerfile.
fn check_label(content: &str, apis: &str, info: &str) -> Option<String> {
    let Some(line) = content.lines().find(|line| line.contains(LABEL)) else {
        return Some(format!(
            "this bundle is {info}. Migrate the APIs for {apis} or provide compatible version(s) via the labels. (e.g. LABEL {LABEL}='4.6-4.8')"
        ));
    };
    let Some((_, range)) = line.split_once('=') else {
        return Some(format!(
            "invalid syntax ({line}) on the LABEL {apis}. Migrate the API(s) for {LABEL} or use the OCP labels. (e.g. LABEL {LABEL}='4.6-4.8')"
        ));
    };
    let range = range.replace(['\'', '"'], "");
    if range.len() < 2 {
        return Some(format!("unable to get the range informed on {LABEL}"));
    }
    let (version, message) = if let Some((_, version)) = range.split_once('=') {
        let message = format!(
            "this bundle is {info}. Migrate the API(s) for {apis} or use the OCP labels for compatible version(s). (e.g. LABEL {LABEL}='=v4.8')"
        );
        (version, message)
    } else if let Some((_, version)) = range.split_once('-') {
        let message = format!(
            "this bundle is {info}. Upgrade the APIs from (v1beta1) to (v1) for {apis} or provide com[atible version(s) via the labels. (e.g. LABEL {LABEL}='4.6-4.8')"
        );
        (version, message)
    } else {
        return Some(format!(
            "this bundle is {apis}. The {range} allows to distribute it on >= {WITHOUT}. Migrate the API(s) for {apis} or provide comatible version(s) via the labels. (e.g. LABEL {LABEL}='4.6-4.8')"
        ));
    };
    match Version::parse_tolerant(version) {
        Err(_) => Some(format!("unable to parse the value ({version}) on ({LABEL})")),
        Ok(version) => is_without(&version).then_some(message),
    }
}
