//! [`Report`], the output for the user: results on standard output, failures and progress on standard error.
//!
//! It makes no decisions. Colors are used only on a terminal.

use std::io::{IsTerminal, Write};

use crate::apply::{Applied, Effect};
use crate::failure::Failure;

/// Writes to standard output and standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    out_colours: bool,
    err_colours: bool,
}

#[derive(Clone, Copy)]
enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Cyan = 36,
}

// === impl Report ===

impl Report {
    pub(crate) fn new() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            out_colours: wanted && std::io::stdout().is_terminal(),
            err_colours: wanted && std::io::stderr().is_terminal(),
        }
    }

    /// Prints a line of the result. A closed pipe is not an error.
    pub(crate) fn line(&self, text: &str) {
        let _ = writeln!(std::io::stdout(), "{text}");
    }

    /// Prints text of the result unchanged.
    pub(crate) fn text(&self, text: &str) {
        let mut out = std::io::stdout();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Prints a progress line.
    pub(crate) fn progress(&self, text: &str) {
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        let label = paint(self.err_colours, Colour::Red, "error:");
        self.progress(&format!("{label} {}", failure.message));
        if let Some(hint) = &failure.hint {
            self.progress(&format!(
                "{} {hint}",
                paint(self.err_colours, Colour::Cyan, "hint:")
            ));
        }
    }

    /// Prints a warning and a fix.
    pub(crate) fn warning(&self, text: &str, fix: Option<&str>) {
        let label = paint(self.err_colours, Colour::Yellow, "warning:");
        self.progress(&format!("{label} {text}"));
        if let Some(fix) = fix {
            self.progress(&format!(
                "{} {fix}",
                paint(self.err_colours, Colour::Cyan, "hint:")
            ));
        }
    }

    /// Prints the files that a command wrote, one per line.
    pub(crate) fn applied(&self, applied: &Applied) {
        for (effect, path) in &applied.files {
            let (colour, word) = match effect {
                Effect::Created => (Colour::Green, "create"),
                Effect::Updated => (Colour::Yellow, "update"),
                Effect::Removed => (Colour::Red, "remove"),
                Effect::Unchanged => continue,
                Effect::Kept => (Colour::Cyan, "keep"),
            };
            let note = if *effect == Effect::Kept { " (yours)" } else { "" };
            self.line(&format!(
                "{} {}{note}",
                paint(self.out_colours, colour, &format!("{word:>7}")),
                path.display()
            ));
        }
    }

    /// Prints a command in the form in which the user would type it.
    pub(crate) fn command(&self, command: &str) {
        self.line(&paint(self.out_colours, Colour::Green, &format!("$ {command}")));
    }
}

fn paint(colours: bool, colour: Colour, text: &str) -> String {
    if colours {
        format!("\x1b[{}m{text}\x1b[0m", colour as u8)
    } else {
        text.to_owned()
    }
}

/// Returns the text of `operator-sdk version`.
pub(crate) fn version() -> String {
    format!(
        "operator-sdk version: v{}, commit: {}, kubernetes version: v{}, rust version: {}, target: {}",
        env!("CARGO_PKG_VERSION"),
        env!("OPERATOR_SDK_COMMIT"),
        crate::template::KUBERNETES_VERSION,
        env!("OPERATOR_SDK_RUSTC"),
        env!("OPERATOR_SDK_TARGET"),
    )
}

/// Returns the output of `operator-sdk version` as JSON.
pub(crate) fn version_json() -> String {
    let version = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": env!("OPERATOR_SDK_COMMIT"),
        "kubernetesVersion": crate::template::KUBERNETES_VERSION,
        "rustVersion": env!("OPERATOR_SDK_RUSTC"),
        "target": env!("OPERATOR_SDK_TARGET"),
    });
    format!("{version:#}")
}
