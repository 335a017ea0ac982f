//! `operator-sdk docs`.

use clap::Args;

/// Open the book of this version in a browser.
///
/// The book is part of the program and needs no network. Without a browser, the command prints the path of the page.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk docs\n  operator-sdk docs reference/cli\n  operator-sdk docs --path"
)]
pub(crate) struct DocsArgs {
    /// The page, such as start/memcached
    #[arg(value_name = "PAGE", default_value = "introduction")]
    pub(crate) page: String,
    /// Print the path of the page, and do not open it
    #[arg(long)]
    pub(crate) path: bool,
}
