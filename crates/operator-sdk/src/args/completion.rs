//! `operator-sdk completion`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print a script that completes commands in a shell.
///
/// The shell reads the script when it starts: add the line for your shell to its startup file.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  source <(operator-sdk completion bash)     # ~/.bashrc\n  source <(operator-sdk completion zsh)      # ~/.zshrc, after compinit\n  operator-sdk completion fish | source      # ~/.config/fish/config.fish"
)]
pub(crate) struct CompletionArgs {
    /// The shell.
    shell: Shell,
}

impl CompletionArgs {
    /// Returns the script.
    pub(crate) fn script(&self) -> String {
        let mut script = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut super::Cli::command(),
            "operator-sdk",
            &mut script,
        );
        String::from_utf8_lossy(&script).into_owned()
    }
}
