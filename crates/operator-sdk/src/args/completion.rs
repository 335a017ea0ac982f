//! `operator-sdk completion`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print a script that completes commands in a shell.
///
/// The shell reads it when it starts: put the line of your shell below into its start file.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  source <(operator-sdk completion bash)     # ~/.bashrc\n  source <(operator-sdk completion zsh)      # ~/.zshrc, behind compinit\n  operator-sdk completion fish | source      # ~/.config/fish/config.fish"
)]
pub(crate) struct CompletionArgs {
    /// The shell.
    shell: Shell,
}

impl CompletionArgs {
    /// The script.
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
