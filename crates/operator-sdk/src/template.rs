//! The templates of a project, and their values.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value};
use serde::Serialize;

use crate::edit::rust;

/// The version of Kubernetes that the SDK supports.
pub(crate) const KUBERNETES_VERSION: &str = "1.36";

/// A template: its name (the path below `templates/`) and its text.
macro_rules! templates {
    ($($name:literal),* $(,)?) => {
        const TEMPLATES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../templates/", $name)))),*];
    };
}

templates!(
    // Not named Cargo.toml, because cargo excludes directories with a manifest from packages.
    "project/manifest.toml",
    "project/Dockerfile",
    "project/Makefile",
    "project/README.md",
    "project/api.rs",
    "project/boilerplate.rs.txt",
    "project/controller.rs",
    "project/dockerignore",
    "project/gitignore",
    "project/lib.rs",
    "project/main.rs",
    "project/rustfmt.toml",
    "project/test.yml",
    "config/sample.yaml",
    "api/version.rs",
    "api/types.rs",
    "api/controller.rs",
    "api/test.rs",
    "api/chaos.rs",
    "api/chaos.yaml",
    "api/chaos_steps.yaml",
    "further/controller.rs",
    "further/test.rs",
    "webhook/webhook.rs",
    "webhook/defaulter.rs",
    "webhook/validator.rs",
    "webhook/conversion.rs",
    "webhook/test.rs",
    "webhook/test_defaulter.rs",
    "webhook/test_validator.rs",
    "webhook/test_conversion.rs",
    "image/types.rs",
    "image/controller.rs",
    "image/test.rs",
);

/// An error of rendering a template.
#[derive(Debug, thiserror::Error)]
#[error("the template {name} is broken: {reason}")]
pub(crate) struct TemplateError {
    name: &'static str,
    reason: String,
}

/// Renders a template.
///
/// # Errors
/// Returns an error if a value of the template is missing.
pub(crate) fn render(name: &'static str, values: &impl Serialize) -> Result<String, TemplateError> {
    let broken = |reason: String| TemplateError { name, reason };
    let failed = |error: minijinja::Error| broken(error.to_string());
    let text = TEMPLATES
        .iter()
        .find(|(there, _)| *there == name)
        .map(|(_, text)| *text)
        .ok_or_else(|| broken("it does not exist".to_owned()))?;
    let environment = environment().map_err(failed)?;
    environment
        .render_named_str(name, text, Value::from(Serde(values)))
        .map_err(failed)
}

fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let syntax = SyntaxConfig::builder()
        .keep_trailing_newline(true)
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()?;
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(syntax);
    environment.add_filter("rust", |text: String| format!("{text:?}"));
    environment.add_function("imports", |path: String, names: Vec<String>| {
        rust::use_line("use", &path, &names)
    });
    environment.add_function(
        "signature",
        |start: String, parameters: Vec<String>, end: String| signature(&start, &parameters, &end),
    );
    Ok(environment)
}

/// Formats a function signature like rustfmt: on one line if it fits, otherwise with one line per parameter. `start`
/// begins with the indentation and ends with the opening parenthesis; `end` begins with the closing one.
fn signature(start: &str, parameters: &[String], end: &str) -> String {
    let line = format!("{start}{}{end}", parameters.join(", "));
    if line.len() <= rust::MAX_WIDTH {
        return line;
    }
    let indent = " ".repeat(start.len() - start.trim_start().len());
    let parameters: String = parameters
        .iter()
        .map(|parameter| format!("{indent}    {parameter},\n"))
        .collect();
    format!("{start}\n{parameters}{indent}{end}")
}

/// Returns the header of a source file: the project's boilerplate and an empty line.
pub(crate) fn header(boilerplate: &str) -> String {
    match boilerplate.trim_end() {
        "" => String::new(),
        text => format!("{text}\n\n"),
    }
}

/// The values of the templates of `init`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProjectValues {
    pub(crate) project_name: String,
    pub(crate) crate_name: String,
    pub(crate) domain: String,
    pub(crate) repo: Option<String>,
    pub(crate) license: bool,
    pub(crate) header: String,
    /// The requirement on the SDK's crates in Cargo.toml.
    pub(crate) sdk: String,
    /// The requirement on a crate that only a feature needs.
    pub(crate) optional_sdk: String,
    pub(crate) rust_version: &'static str,
}

/// The values of the templates of `create api`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ApiValues {
    pub(crate) project_name: String,
    pub(crate) crate_name: String,
    pub(crate) header: String,
    pub(crate) group: String,
    pub(crate) api_group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) kind_lower: String,
    pub(crate) port_name: String,
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    /// The file of the sample.
    pub(crate) sample: String,
    /// The module of the type: `api::v1` in this crate, or a path from another one.
    pub(crate) api_path: String,
    /// True if the type is from another project.
    pub(crate) foreign: bool,
    /// True if the type is neither from this project nor from Kubernetes.
    pub(crate) external: bool,
    /// True if this is the storage version.
    pub(crate) storage: bool,
    /// The name of the controller in CamelCase, which determines its file names.
    pub(crate) controller: String,
    /// The name of the controller, if it differs from the kind.
    pub(crate) controller_name: Option<String>,
    pub(crate) image: Option<ImageValues>,
}

/// The values of the templates of a conversion.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ConversionValues {
    /// The version that is converted to the hub and back.
    #[serde(flatten)]
    pub(crate) spoke: ApiValues,
    /// The module of its type, from outside the crate.
    pub(crate) spoke_path: String,
    pub(crate) hub_version: String,
    pub(crate) hub_path: String,
}

/// The container of a complete controller.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ImageValues {
    pub(crate) image: String,
    /// The words of the command, separated by commas.
    pub(crate) command: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) run_as_user: Option<i64>,
    pub(crate) size_max: i32,
}

// === impl ApiValues ===

impl ApiValues {
    /// Returns the name from which the names of the controller's files are derived.
    pub(crate) fn controller_file_name(&self) -> &str {
        &self.controller
    }
}
