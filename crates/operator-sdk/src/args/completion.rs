//! `operator-sdk completion`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print a script that completes commands in a shell.
///
/// For bash: `source <(operator-sdk completion bash)`. For fish: `operator-sdk completion fish | source`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell.
    shell: Shell,
}

impl CompletionArgs {
    pub(crate) fn print(&self) {
        let mut command = super::Cli::command();
        clap_complete::generate(self.shell, &mut command, "operator-sdk", &mut std::io::stdout());
    }
}
