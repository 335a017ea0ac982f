//! `operator-sdk man`.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

/// Write the manual pages of all commands.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  operator-sdk man ~/.local/share/man/man1 && man operator-sdk-init")]
pub(crate) struct ManArgs {
    /// The directory for the pages; it is created if it does not exist.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

impl ManArgs {
    /// Writes the pages.
    pub(crate) fn write(&self) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        clap_mangen::generate_to(super::Cli::command(), &self.directory)
    }
}
