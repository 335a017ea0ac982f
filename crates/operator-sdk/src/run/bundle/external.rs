//! External validators: programs that get a bundle directory and print findings as JSON.

use std::process::Command;

use operator_olm::finding::{Finding, Level};
use operator_olm::validator;
use serde_json::Value;

use super::BundleError;

/// The name of these validators if the name of the program is not needed.
const NAME: &str = "external";

/// Runs programs (paths separated by `:`) on a bundle.
pub(super) fn run(programs: &str, place: &str) -> Result<Vec<Finding>, BundleError> {
    let mut findings = Vec::new();
    for program in programs.split(':').filter(|program| !program.is_empty()) {
        let failed = |reason: String| BundleError::External {
            program: program.to_owned(),
            reason,
        };
        let output = Command::new(program)
            .arg(place)
            .output()
            .map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let result = parse(&text).map_err(|reason| {
            let errors = String::from_utf8_lossy(&output.stderr);
            match errors.trim() {
                "" => failed(reason),
                errors => failed(format!("{reason}; it wrote {errors:?}")),
            }
        })?;
        findings.extend(validator::warnings_first(result));
    }
    Ok(findings)
}

/// Parses one result, or a stream of several.
fn parse(text: &str) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let mut any = false;
    for result in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let result = result.map_err(|error| format!("its output is not JSON: {error}"))?;
        if !result.is_object() {
            return Err("its output is not a JSON object".to_owned());
        }
        any = true;
        for (field, level) in [("Warnings", Level::Warning), ("Errors", Level::Error)] {
            let list = result[field].as_array().into_iter().flatten();
            findings.extend(list.map(|found| finding(found, level)));
        }
    }
    if any {
        Ok(findings)
    } else {
        Err("it printed nothing".to_owned())
    }
}

fn finding(found: &Value, level: Level) -> Finding {
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    Finding {
        validator: NAME,
        kind: "ExternalFinding",
        level,
        field: text("Field"),
        value: match &found["BadValue"] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        },
        detail: text("Detail"),
        path: String::new(),
        place: apimachinery::yaml::Place::default(),
        fix: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_a_stream() {
        let text = r#"{"Name": "a", "Errors": [{"Type": "X", "Level": "Error", "Field": "f", "BadValue": 5, "Detail": "d"}]}
            {"Name": "b", "Warnings": [{"Detail": "w"}], "Errors": null}"#;
        let messages: Vec<String> = parse(text).unwrap().iter().map(Finding::message).collect();
        assert_eq!(messages, ["Error: Field f, Value 5: d", "Warning: : w"]);
        for wrong in ["", "text", "[]"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
