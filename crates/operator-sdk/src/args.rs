//! What was typed: one file per command, clap types only.

mod completion;
mod create_api;
mod init;

use clap::{Parser, Subcommand};

pub(crate) use self::completion::CompletionArgs;
pub(crate) use self::create_api::{CreateApiArgs, ImageArgs};
pub(crate) use self::init::{InitArgs, License};

/// Build Kubernetes operators in Rust.
///
/// One binary scaffolds, generates, runs and tests an operator; it needs no cluster, no container engine and no
/// other tool than cargo.
#[derive(Debug, Parser)]
#[command(name = "operator-sdk", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(InitArgs),
    /// Add an API to the project.
    #[command(subcommand, arg_required_else_help = true)]
    Create(CreateCommand),
    Completion(CompletionArgs),
    /// Print the versions of the tool and of what it builds on.
    Version,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CreateCommand {
    Api(CreateApiArgs),
}
