//! External plugins: programs in any language that take part in scaffolding commands. They use kubebuilder's protocol
//! (`PluginRequest` and `PluginResponse` of version v1alpha1, as JSON over standard input and output).
//!
//! They run after this tool's own scaffold. `--plugins` adds them, and the project's `layout` records them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use operator_manifests::kustomize;
use serde::{Deserialize, Serialize};

use super::scaffold::{current_directory, finish};
use super::texts;
use crate::failure::{Failure, Hinted};
use crate::file;
use crate::plan::Plan;
use crate::project::layout;
use crate::report::Report;

/// The version of the protocol.
const API_VERSION: &str = "v1alpha1";

/// The key of this tool in a chain.
const OURS: &str = "rust.operator-sdk.dev/v1";

/// The commands that support plugins, and their names in the protocol.
const COMMANDS: [(&[&str], &str); 4] = [
    (&["init"], "init"),
    (&["create", "api"], "create api"),
    (&["create", "webhook"], "create webhook"),
    (&["edit"], "edit"),
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum PluginError {
    #[error("{0:?} is not a plugin: a key such as example.com/v1 is needed")]
    Key(String),
    #[error("the plugin {key} is not installed: {} does not exist", path.display())]
    Missing { key: String, path: PathBuf },
    #[error("the plugin {key} {effect}, but projects of this tool are in Rust")]
    Builtin {
        key: String,
        effect: &'static str,
        hint: &'static str,
    },
    #[error("the plugin {key} cannot be run: {reason}")]
    Run { key: String, reason: String },
    #[error("the plugin {key} failed: {reason}")]
    Failed { key: String, reason: String },
    #[error("the plugin {key} tried to write {path:?}, which is outside the project")]
    Outside { key: String, path: String },
    #[error("PROJECT cannot be edited: {0}")]
    Project(String),
}

impl Hinted for PluginError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Key(_) => {
                "use keys of the form NAME/VERSION in `--plugins`, separated by commas".to_owned()
            }
            Self::Missing { .. } => {
                "install the program there, or set another directory in EXTERNAL_PLUGINS_PATH".to_owned()
            }
            Self::Builtin { hint, .. } => (*hint).to_owned(),
            Self::Run { .. } => {
                "check that it is executable and writes one JSON object in response to a request".to_owned()
            }
            Self::Failed { .. } | Self::Outside { .. } => {
                "the files of this tool are kept; correct them for the plugin, or omit `--plugins`".to_owned()
            }
            Self::Project(_) => "add the plugin to its `layout` by hand".to_owned(),
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    api_version: &'static str,
    args: &'a [String],
    command: &'a str,
    universe: &'a BTreeMap<String, String>,
    plugin_chain: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<&'a str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Response {
    metadata: Metadata,
    universe: Option<BTreeMap<String, String>>,
    error: bool,
    error_msgs: Vec<String>,
    flags: Vec<Flag>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    description: String,
    examples: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Flag {
    #[serde(alias = "Name")]
    name: String,
    #[serde(alias = "Type", rename = "type")]
    type_: String,
    #[serde(alias = "Usage")]
    usage: String,
}

/// The plugins of a command line.
pub(crate) struct Chain {
    command: &'static str,
    plugins: Vec<Plugin>,
    /// The flags for the plugins.
    arguments: Vec<String>,
    dry_run: bool,
}

struct Plugin {
    key: String,
    program: PathBuf,
    flags: Vec<Flag>,
}

/// Removes the plugins' part from a command line. Returns `None` for commands without plugins.
pub(crate) fn split(line: &mut Vec<OsString>) -> Result<Option<Chain>, Failure> {
    let texts = line
        .iter()
        .map(|word| word.to_str().map(str::to_owned))
        .collect::<Option<Vec<String>>>();
    // Plugins do not get words that are not UTF-8.
    let Some(mut words) = texts else {
        return Ok(None);
    };
    let chain = split_words(&mut words)?;
    *line = words.into_iter().map(OsString::from).collect();
    Ok(chain)
}

fn split_words(words: &mut Vec<String>) -> Result<Option<Chain>, Failure> {
    let matches = |command: &&(&[&str], &str)| {
        words
            .iter()
            .zip(command.0)
            .filter(|(word, part)| word == *part)
            .count()
            == command.0.len()
    };
    let Some((_, command)) = COMMANDS.iter().find(matches) else {
        return Ok(None);
    };
    let mut keys = named(words);
    for key in recorded()? {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.retain(|key| key != OURS);
    if keys.is_empty() {
        return Ok(None);
    }
    let mut plugins = keys
        .iter()
        .map(|key| Plugin::find(key))
        .collect::<Result<Vec<_>, _>>()?;
    let wanted = format!("--{}", command.replace(' ', "-"));
    for plugin in &mut plugins {
        plugin.flags = plugin
            .ask(
                "flags",
                std::slice::from_ref(&wanted),
                &BTreeMap::new(),
                &keys,
                None,
            )?
            .flags;
    }
    let flags: Vec<Flag> = plugins.iter().flat_map(|plugin| plugin.flags.clone()).collect();
    Ok(Some(Chain {
        command,
        arguments: take_flags(words, &flags),
        plugins,
        dry_run: words.iter().any(|word| word == "--dry-run"),
    }))
}

/// Removes `--plugins` and returns its value.
fn named(words: &mut Vec<String>) -> Vec<String> {
    let mut keys = Vec::new();
    let mut index = 0;
    while let Some(word) = words.get(index).cloned() {
        let value = match word.strip_prefix("--plugins=") {
            Some(value) => value.to_owned(),
            None if word == "--plugins" => {
                words.remove(index);
                words.get(index).cloned().unwrap_or_default()
            }
            None => {
                index += 1;
                continue;
            }
        };
        if index < words.len() {
            words.remove(index);
        }
        keys.extend(
            value
                .split(',')
                .map(|key| key.trim().to_owned())
                .filter(|key| !key.is_empty()),
        );
    }
    keys
}

/// Returns the plugins of the project in the current directory, if there is one.
fn recorded() -> Result<Vec<String>, Failure> {
    let path = current_directory()?.join(layout::PROJECT);
    let Ok(text) = file::read_text(&path) else {
        return Ok(Vec::new());
    };
    // The command itself reports an invalid file.
    let document: serde_json::Value = serde_saphyr::from_str(&text).unwrap_or_default();
    let layout: Vec<&str> = document["layout"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|key| key.as_str())
        .collect();
    let is_ours = document["version"] == "3" && layout.contains(&OURS);
    let others = layout.into_iter().filter(|key| is_ours && *key != OURS);
    Ok(others.map(str::to_owned).collect())
}

fn take_flags(words: &mut Vec<String>, flags: &[Flag]) -> Vec<String> {
    let mut taken = Vec::new();
    let mut index = 0;
    while let Some(word) = words.get(index).cloned() {
        let name = word.trim_start_matches('-').split('=').next().unwrap_or_default();
        let flag = flags
            .iter()
            .find(|flag| word.starts_with("--") && flag.name == name);
        let Some(flag) = flag else {
            index += 1;
            continue;
        };
        taken.push(words.remove(index));
        let is_switch = ["bool", "boolean"].contains(&flag.type_.as_str());
        if !word.contains('=') && !is_switch && index < words.len() {
            taken.push(words.remove(index));
        }
    }
    taken
}

// === impl Chain ===

impl Chain {
    /// Prints the plugins' part of `--help`.
    pub(crate) fn help(&self, report: &Report) -> Result<(), Failure> {
        let keys = self.keys();
        let wanted = [format!("--{}", self.command.replace(' ', "-"))];
        for plugin in &self.plugins {
            let metadata = plugin
                .ask("metadata", &wanted, &BTreeMap::new(), &keys, None)?
                .metadata;
            report.line(&format!("\nPlugin {}: {}", plugin.key, metadata.description));
            for flag in &plugin.flags {
                report.line(&format!("      --{} <{}>  {}", flag.name, flag.type_, flag.usage));
            }
            if !metadata.examples.is_empty() {
                report.line(&metadata.examples);
            }
        }
        Ok(())
    }

    fn keys(&self) -> Vec<String> {
        self.plugins.iter().map(|plugin| plugin.key.clone()).collect()
    }

    /// Runs each plugin after this tool. Plugins may change the project.
    pub(crate) fn run(&self, report: &Report) -> Result<(), Failure> {
        if self.dry_run {
            return Ok(());
        }
        let root = current_directory()?;
        let keys = self.keys();
        for plugin in &self.plugins {
            let universe = texts::of(&root);
            let config = universe.get(layout::PROJECT).map(String::as_str);
            let answer = plugin.ask(self.command, &self.arguments, &universe, &keys, config)?;
            let mut plan = Plan::default();
            for (path, text) in answer.universe.unwrap_or_default() {
                plugin.check_path(&path)?;
                let before = universe.get(&path).map(String::as_str);
                if before != Some(text.as_str()) {
                    plan.put(&path, before, text);
                }
            }
            finish(&root, &plan, false, report)?;
        }
        self.record(&root, report)
    }

    /// Records the chain of plugins in the project for later commands.
    fn record(&self, root: &Path, report: &Report) -> Result<(), Failure> {
        let path = root.join(layout::PROJECT);
        let failed = |reason: String| PluginError::Project(reason);
        let before = file::read_text(&path).map_err(|error| failed(error.to_string()))?;
        let mut text = before.clone();
        for plugin in &self.plugins {
            let edited = kustomize::add_entry(&text, "layout", &serde_json::json!(plugin.key))
                .map_err(|error| failed(error.to_string()))?;
            text = edited.unwrap_or(text);
        }
        let mut plan = Plan::default();
        plan.put(layout::PROJECT, Some(&before), text);
        finish(root, &plan, false, report)
    }
}

// === impl Plugin ===

impl Plugin {
    fn find(key: &str) -> Result<Self, PluginError> {
        let wrong = || PluginError::Key(key.to_owned());
        let (name, version) = key.split_once('/').ok_or_else(wrong)?;
        let plain = |text: &str| {
            !text.is_empty()
                && !text.starts_with('.')
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
        };
        if !plain(name) || !plain(version) {
            return Err(wrong());
        }
        let program = directory().join(name).join(version).join(name);
        if !program.is_file() {
            check_builtin(key, name)?;
            return Err(PluginError::Missing {
                key: key.to_owned(),
                path: program,
            });
        }
        Ok(Self {
            key: key.to_owned(),
            program,
            flags: Vec::new(),
        })
    }

    fn ask(
        &self,
        command: &str,
        args: &[String],
        universe: &BTreeMap<String, String>,
        chain: &[String],
        config: Option<&str>,
    ) -> Result<Response, PluginError> {
        let failed = |reason: String| PluginError::Run {
            key: self.key.clone(),
            reason,
        };
        let request = Request {
            api_version: API_VERSION,
            args,
            command,
            universe,
            plugin_chain: chain,
            config,
        };
        let request = serde_json::to_vec(&request).map_err(|error| failed(error.to_string()))?;
        let mut child = Command::new(&self.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let input = child.stdin.take();
        // A plugin may respond without reading all of its input.
        let writer = std::thread::spawn(move || {
            input.map(|mut input| std::io::Write::write_all(&mut input, &request));
        });
        let output = child
            .wait_with_output()
            .map_err(|error| failed(error.to_string()))?;
        let _ = writer.join();
        if !output.status.success() {
            return Err(failed(output.status.to_string()));
        }
        let response: Response = serde_json::from_slice(&output.stdout)
            .map_err(|error| failed(format!("its response is not valid: {error}")))?;
        if response.error {
            return Err(PluginError::Failed {
                key: self.key.clone(),
                reason: response.error_msgs.join("; "),
            });
        }
        Ok(response)
    }

    fn check_path(&self, path: &str) -> Result<(), PluginError> {
        let inside = Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if inside && !path.is_empty() {
            return Ok(());
        }
        Err(PluginError::Outside {
            key: self.key.clone(),
            path: path.to_owned(),
        })
    }
}

/// Returns an error that explains why a plugin that is built into kubebuilder or the Go operator-sdk does not exist
/// here.
fn check_builtin(key: &str, name: &str) -> Result<(), PluginError> {
    const OMIT: &str = "omit `--plugins`";
    let short = name.split('.').next().unwrap_or_default();
    let (effect, hint) = match short {
        "go" => ("scaffolds projects in Go", OMIT),
        "ansible" => ("scaffolds projects in Ansible", OMIT),
        "helm" => ("scaffolds projects of Helm charts", OMIT),
        "quarkus" => ("scaffolds projects in Java", OMIT),
        "kustomize" => ("scaffolds config/, which this tool does without a plugin", OMIT),
        "deploy-image" => (
            "scaffolds a controller in Go",
            "omit `--plugins`, and use `operator-sdk create api --image`",
        ),
        _ => return Ok(()),
    };
    Err(PluginError::Builtin {
        key: key.to_owned(),
        effect,
        hint,
    })
}

/// Returns the directory in which kubebuilder searches for plugins.
fn directory() -> PathBuf {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(path) = variable("EXTERNAL_PLUGINS_PATH") {
        return path;
    }
    let home = variable("HOME").unwrap_or_default();
    let usual = if cfg!(target_os = "macos") {
        home.join("Library/Application Support")
    } else {
        home.join(".config")
    };
    variable("XDG_CONFIG_HOME")
        .unwrap_or(usual)
        .join("kubebuilder/plugins")
}
