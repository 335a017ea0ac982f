//! `generate bundle`: the files of a generated bundle. Labels and lines of the user are kept.

use apimachinery::yaml;
use operator_olm::generate::Generated;

use super::Plan;

const LABEL: &str = "operators.operatorframework.io";

/// Settings of the metadata of a bundle.
pub(crate) struct Metadata<'a> {
    pub(crate) package: &'a str,
    pub(crate) channels: &'a [String],
    pub(crate) default_channel: Option<&'a str>,
    pub(crate) layout: &'a str,
    /// Directory of the bundle, relative to the project.
    pub(crate) directory: &'a str,
    pub(crate) overwrite: bool,
}

impl Metadata<'_> {
    fn labels(&self, has_scorecard: bool) -> Vec<(String, String)> {
        let mut labels = vec![
            ("bundle.mediatype.v1", "registry+v1".to_owned()),
            ("bundle.manifests.v1", "manifests/".to_owned()),
            ("bundle.metadata.v1", "metadata/".to_owned()),
            ("bundle.package.v1", self.package.to_owned()),
            ("bundle.channels.v1", self.channels.join(",")),
        ];
        labels.extend(
            self.default_channel
                .map(|channel| ("bundle.channel.default.v1", channel.to_owned())),
        );
        labels.extend([
            ("metrics.builder", builder()),
            ("metrics.mediatype.v1", "metrics+v1".to_owned()),
            ("metrics.project_layout", self.layout.to_owned()),
        ]);
        if has_scorecard {
            labels.push(("test.mediatype.v1", "scorecard+v1".to_owned()));
            labels.push(("test.config.v1", "tests/scorecard/".to_owned()));
        }
        let labels = labels.into_iter();
        labels
            .map(|(name, value)| (format!("{LABEL}.{name}"), value))
            .collect()
    }
}

/// The name of this tool in labels and annotations.
pub(crate) fn builder() -> String {
    concat!("operator-sdk-rust-v", env!("CARGO_PKG_VERSION")).to_owned()
}

/// Plans the files of a bundle. `read` returns the text of an existing file.
pub(crate) fn plan(
    generated: &Generated,
    metadata: &Metadata<'_>,
    read: &dyn Fn(&str) -> Option<String>,
) -> Plan {
    let mut plan = Plan::default();
    let mut put = |path: String, text: String| {
        let before = read(&path);
        plan.put(&path, before.as_deref(), text);
    };
    let directory = metadata.directory;
    let csv = format!(
        "{directory}/manifests/{}.clusterserviceversion.yaml",
        metadata.package
    );
    put(csv, yaml::to_string(&generated.csv));
    for (name, manifest) in &generated.files {
        put(format!("{directory}/manifests/{name}"), yaml::to_string(manifest));
    }
    if let Some(scorecard) = &generated.scorecard {
        put(
            format!("{directory}/tests/scorecard/config.yaml"),
            yaml::to_string(scorecard),
        );
    }
    let labels = metadata.labels(generated.scorecard.is_some());
    let path = format!("{directory}/metadata/annotations.yaml");
    let before = read(&path);
    if before.is_none() || metadata.overwrite {
        put(path, annotations_file(before.as_deref(), &labels));
    }
    let path = "bundle.Dockerfile".to_owned();
    let before = read(&path);
    if before.is_none() || metadata.overwrite {
        let has_scorecard = generated.scorecard.is_some();
        put(
            path,
            dockerfile(before.as_deref(), &labels, directory, has_scorecard),
        );
    }
    plan
}

fn annotations_file(before: Option<&str>, labels: &[(String, String)]) -> String {
    let lines = labels.iter().map(|(name, value)| {
        let line = format!(
            "  {}",
            yaml::to_string(&serde_json::json!({name: value})).trim_end()
        );
        (name.clone(), line)
    });
    let key = |line: &str| {
        let (name, _) = line.trim_start().split_once(':')?;
        name.starts_with(LABEL).then(|| name.to_owned())
    };
    let has_map = before.is_some_and(|text| text.lines().any(|line| line.trim_end() == "annotations:"));
    let before = if has_map { before } else { None };
    merge(
        before.unwrap_or("annotations:\n"),
        &lines.collect::<Vec<_>>(),
        &key,
    )
}

fn dockerfile(
    before: Option<&str>,
    labels: &[(String, String)],
    directory: &str,
    has_scorecard: bool,
) -> String {
    let mut lines: Vec<(String, String)> = labels
        .iter()
        .map(|(name, value)| (name.clone(), format!("LABEL {name}={value}")))
        .collect();
    let mut copies = vec!["manifests", "metadata"];
    if has_scorecard {
        copies.push("tests/scorecard");
    }
    for part in copies {
        lines.push((
            format!("COPY /{part}/"),
            format!("COPY {directory}/{part} /{part}/"),
        ));
    }
    let key = |line: &str| {
        let mut words = line.split_whitespace();
        match words.next()? {
            "LABEL" => {
                let (name, _) = words.next()?.split_once('=')?;
                name.starts_with(LABEL).then(|| name.to_owned())
            }
            "COPY" => {
                let target = words.last()?;
                let own = ["/manifests/", "/metadata/", "/tests/scorecard/"];
                own.contains(&target).then(|| format!("COPY {target}"))
            }
            _ => None,
        }
    };
    merge(before.unwrap_or("FROM scratch\n\n"), &lines, &key)
}

/// Replaces the lines of this tool in a text, and keeps all other lines. New lines follow the last replaced one.
fn merge(text: &str, wanted: &[(String, String)], key: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut missing: Vec<&(String, String)> = wanted.iter().collect();
    let mut last_own = None;
    for line in text.lines() {
        let Some(name) = key(line) else {
            out.push(line.to_owned());
            continue;
        };
        // Lines that are no longer wanted, and repeated ones, are removed.
        if let Some(index) = missing.iter().position(|(wanted, _)| *wanted == name) {
            out.push(missing.remove(index).1.clone());
            last_own = Some(out.len());
        }
    }
    let place = last_own.unwrap_or(out.len());
    out.splice(place..place, missing.into_iter().map(|(_, line)| line.clone()));
    out.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(channels: &str) -> Vec<(String, String)> {
        vec![
            (format!("{LABEL}.bundle.package.v1"), "cache".to_owned()),
            (format!("{LABEL}.bundle.channels.v1"), channels.to_owned()),
        ]
    }

    #[test]
    fn lines_of_the_user_survive() {
        let first = dockerfile(None, &labels("alpha"), "bundle", true);
        assert!(
            first.starts_with(
                "FROM scratch\n\nLABEL operators.operatorframework.io.bundle.package.v1=cache\n"
            )
        );
        let edited =
            format!("# mine\n{first}LABEL com.redhat.openshift.versions=v4.15\nCOPY LICENSE /licenses/\n");
        let again = dockerfile(Some(&edited), &labels("stable"), "bundle", false);
        assert!(again.starts_with("# mine\nFROM scratch\n"), "{again}");
        assert!(
            again.contains("channels.v1=stable\n") && !again.contains("channels.v1=alpha"),
            "{again}"
        );
        assert!(again.contains("COPY bundle/manifests /manifests/\n"), "{again}");
        assert!(!again.contains("scorecard"), "{again}");
        assert!(
            again.ends_with("LABEL com.redhat.openshift.versions=v4.15\nCOPY LICENSE /licenses/\n"),
            "{again}"
        );
        assert_eq!(
            dockerfile(Some(&again), &labels("stable"), "bundle", false),
            again
        );
    }

    #[test]
    fn labels_of_the_user_survive() {
        let first = annotations_file(None, &labels("alpha,stable"));
        let edited = format!("{first}  # OpenShift\n  com.redhat.openshift.versions: v4.15\n");
        let again = annotations_file(Some(&edited), &labels("stable"));
        assert_eq!(
            again,
            "annotations:\n  operators.operatorframework.io.bundle.package.v1: cache\n  \
             operators.operatorframework.io.bundle.channels.v1: stable\n  # OpenShift\n  \
             com.redhat.openshift.versions: v4.15\n"
        );
    }
}
