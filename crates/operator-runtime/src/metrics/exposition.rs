//! Conversion of the OpenMetrics text of prometheus-client to the older text format of Go programs, which every scraper
//! reads. They differ in the names of counters in descriptions, in the number format, and in the end mark.

use std::fmt::Write as _;

/// Converts OpenMetrics text to Prometheus text, version 0.0.4.
pub(super) fn to_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), description) => {
                help = Some((name, description.unwrap_or_default()));
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => describe(&mut text, help.take(), name, kind),
            (Some("#"), ..) | (None, ..) => {}
            _ => sample(&mut text, line),
        }
        // Writing to a string cannot fail, here and below.
    }
    text
}

fn describe(text: &mut String, help: Option<(&str, &str)>, name: &str, kind: &str) {
    let (suffix, kind) = match kind {
        "counter" => ("_total", kind),
        "info" => ("_info", "gauge"),
        "unknown" => ("", "untyped"),
        _ => ("", kind),
    };
    if let Some((described, description)) = help.filter(|(described, _)| *described == name) {
        // prometheus-client ends every description with a full stop.
        let description = description.strip_suffix('.').unwrap_or(description);
        let _infallible = writeln!(text, "# HELP {described}{suffix} {description}");
    }
    let _infallible = writeln!(text, "# TYPE {name}{suffix} {kind}");
}

fn sample(text: &mut String, line: &str) {
    // The older format has no exemplars, ` # {...} value`.
    let line = line.split_once(" # ").map_or(line, |(line, _)| line);
    let Some((series, value)) = line.rsplit_once(' ') else {
        return;
    };
    let (before, bound, after) = upper_bound(series);
    text.push_str(before);
    text.push_str(&number(bound));
    text.push_str(after);
    let _infallible = writeln!(text, " {}", number(value));
}

/// Splits a series at the value of its label `le`, which is empty if it has none.
fn upper_bound(series: &str) -> (&str, &str, &str) {
    const LABEL: &str = "le=\"";
    let found = series.find("_bucket{").and_then(|start| {
        let from = series.get(start..)?.find(LABEL)? + start + LABEL.len();
        let until = series.get(from..)?.find('"')? + from;
        Some((
            series.get(..from)?,
            series.get(from..until)?,
            series.get(until..)?,
        ))
    });
    found.unwrap_or((series, "", ""))
}

/// Formats a number like Go's verb `g`: `1` for `1.0`, `1e-08` for `1e-8`, `1e+06` for a million.
fn number(text: &str) -> String {
    let Ok(value) = text.parse::<f64>() else {
        return text.to_owned();
    };
    if !value.is_finite() {
        return text.to_owned();
    }
    if value == 0.0 || (1e-4..1e6).contains(&value.abs()) {
        return value.to_string();
    }
    let text = format!("{value:e}");
    let Some((digits, exponent)) = text.split_once('e') else {
        return text;
    };
    let (sign, exponent) = exponent
        .strip_prefix('-')
        .map_or(("+", exponent), |exponent| ("-", exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_form_of_go() {
        for (given, wanted) in [
            ("1.0", "1"),
            ("0.0", "0"),
            ("0.005", "0.005"),
            ("1e-8", "1e-08"),
            ("9.999999999999999e-6", "9.999999999999999e-06"),
            ("0.00001", "1e-05"),
            ("1000.0", "1000"),
            ("262144.0", "262144"),
            ("1048576", "1.048576e+06"),
            ("+Inf", "+Inf"),
            ("5e22", "5e+22"),
        ] {
            assert_eq!(number(given), wanted);
        }
    }

    #[test]
    fn counters_are_described_under_the_name_of_their_samples() {
        let open =
            "# HELP a_reads Reads of a.\n# TYPE a_reads counter\na_reads_total{x=\"le=\\\"1.0\"} 2\n# EOF\n";
        let text = "# HELP a_reads_total Reads of a\n# TYPE a_reads_total counter\na_reads_total{x=\"le=\\\"1.0\"} 2\n";
        assert_eq!(to_text(open), text);
    }

    #[test]
    fn buckets_keep_their_bounds() {
        let open = "# TYPE t histogram\nt_sum 0.25\nt_count 1\nt_bucket{le=\"1.0\",a=\"b\"} 1\nt_bucket{le=\"+Inf\"} 1\n";
        let text = "# TYPE t histogram\nt_sum 0.25\nt_count 1\nt_bucket{le=\"1\",a=\"b\"} 1\nt_bucket{le=\"+Inf\"} 1\n";
        assert_eq!(to_text(open), text);
    }
}
