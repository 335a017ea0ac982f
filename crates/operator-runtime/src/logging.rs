//! The log of an operator: text for people, or JSON for machines, on standard error.

use std::io::IsTerminal;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Encoder {
    /// Lines for people.
    Console,
    /// A JSON object a line.
    Json,
}

/// What is logged: `debug`, `info`, `error`, `panic`, or a verbosity, of which 1 is debug and more is trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevel(LevelFilter);

/// The levels of zap's flags have no number below that of debug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no log level: use debug, info, error, panic or a number above 0")]
pub struct UnknownLevel(String);

// === impl LogLevel ===

impl LogLevel {
    /// What helps while developing.
    pub const DEBUG: Self = Self(LevelFilter::DEBUG);
    /// What an operator does.
    pub const INFO: Self = Self(LevelFilter::INFO);
}

impl FromStr for LogLevel {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        let level = match text {
            "debug" | "1" => LevelFilter::DEBUG,
            "info" => LevelFilter::INFO,
            "error" | "panic" => LevelFilter::ERROR,
            other => match other.parse::<u8>() {
                Ok(verbosity) if verbosity > 1 => LevelFilter::TRACE,
                _ => return Err(UnknownLevel(text.to_owned())),
            },
        };
        Ok(Self(level))
    }
}

/// Libraries whose messages say what this crate says better, or nothing about the operator.
const QUIET: [&str; 7] = [
    "kube_runtime=error",
    "kube_client=info",
    "hyper=info",
    "hyper_util=info",
    "rustls=info",
    "tower=info",
    "h2=info",
];

/// Writes the log from now on, unless somebody does already. `RUST_LOG` goes before `level`.
pub fn init(encoder: Encoder, level: LogLevel) {
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => EnvFilter::new(directives),
        _ => EnvFilter::new(format!("{},{}", level.0, QUIET.join(","))),
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    // An error means that the program has set up its own log: that one stays.
    let _ = match encoder {
        Encoder::Console => subscriber.with_target(false).try_init(),
        Encoder::Json => subscriber.json().flatten_event(true).try_init(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_the_names_and_numbers_of_zap() {
        let level = |text: &str| text.parse::<LogLevel>().map(|level| level.0);
        assert_eq!(level("debug"), Ok(LevelFilter::DEBUG));
        assert_eq!(level("1"), Ok(LevelFilter::DEBUG));
        assert_eq!(level("5"), Ok(LevelFilter::TRACE));
        assert_eq!(level("panic"), Ok(LevelFilter::ERROR));
        assert!(level("0").is_err());
        assert!(level("loud").is_err());
    }
}
