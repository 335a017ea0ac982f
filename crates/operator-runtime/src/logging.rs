//! [`Logging`], the log of an operator on standard error, as text or JSON.
//!
//! ```
//! use operator_runtime::logging::{LogLevel, Logging};
//! use tracing_subscriber::filter::LevelFilter;
//!
//! Logging { level: LogLevel(LevelFilter::DEBUG), ..Logging::default() }.init();
//! tracing::debug!(size = 3, "Scaling");
//! // {"level":"debug","ts":"2006-01-02T15:04:05.000000006Z","msg":"Scaling","size":3,"logger":"…"}
//! ```

use std::backtrace::Backtrace;
use std::fmt;
use std::io::{self, IsTerminal};
use std::str::FromStr;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{Format, JsonFields, Writer};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

mod json;
mod sampling;

use self::json::JsonLine;
use self::sampling::Sampler;
use self::sampling::Sampling;

/// Options of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    /// The format. Default: JSON.
    pub encoder: Encoder,
    /// The minimum level, unless `RUST_LOG` is set. Default: `info`.
    pub level: LogLevel,
    /// The minimum level of messages with a stack trace. Default: none.
    pub stacktrace_level: Option<StacktraceLevel>,
    /// The format of timestamps.
    pub time_encoding: TimeEncoding,
    /// Logs only every 100th of identical messages after the first 100 in a second. Default: true.
    pub sampling: bool,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Encoder {
    /// Text lines.
    Console,
    /// One JSON object per line.
    Json,
}

/// The minimum level of messages: `debug`, `info`, `error`, `panic`, or a verbosity as in zap's flags, where 1 is debug
/// and anything greater is trace. `panic` is the same as `error`, because panics are logged as errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevel(pub LevelFilter);

/// The minimum level of messages with a stack trace. Function names need symbols in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StacktraceLevel {
    /// `info` and above.
    Info,
    /// Errors.
    Error,
    /// Panics only. They are not log messages: `RUST_BACKTRACE=1` prints their traces.
    Panic,
}

/// The format of timestamps. Text formats are in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TimeEncoding {
    /// Seconds since 1970, with fractions.
    Epoch,
    /// Milliseconds since 1970, with fractions.
    Millis,
    /// Nanoseconds since 1970.
    Nano,
    /// UTC with milliseconds: `2006-01-02T15:04:05.000Z`.
    Iso8601,
    /// UTC with seconds: `2006-01-02T15:04:05Z`.
    Rfc3339,
    /// UTC with nanoseconds, without trailing zeros: `2006-01-02T15:04:05.000000000Z`.
    #[default]
    Rfc3339nano,
}

// === impl LogLevel ===

impl LogLevel {
    /// Returns true for the level `trace`.
    pub(crate) fn is_trace(self) -> bool {
        self.0 == LevelFilter::TRACE
    }
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let level = match text {
            "debug" | "1" => LevelFilter::DEBUG,
            "info" => LevelFilter::INFO,
            "error" | "panic" => LevelFilter::ERROR,
            other => match other.parse::<u8>() {
                Ok(verbosity) if verbosity > 1 => LevelFilter::TRACE,
                _ => {
                    let hint = "use debug, info, error, panic or a number above 0";
                    return Err(format!("invalid log level {text:?}: {hint}"));
                }
            },
        };
        Ok(Self(level))
    }
}

/// Libraries whose messages repeat those of this crate or are not relevant to the operator.
const QUIET: [&str; 7] = [
    "kube_runtime=error",
    "kube_client=info",
    "hyper=info",
    "hyper_util=info",
    "rustls=info",
    "tower=info",
    "h2=info",
];

// === impl Logging ===

impl Default for Logging {
    fn default() -> Self {
        Self {
            encoder: Encoder::Json,
            level: LogLevel(LevelFilter::INFO),
            stacktrace_level: None,
            time_encoding: TimeEncoding::default(),
            sampling: true,
        }
    }
}

impl Logging {
    /// Writes the log of the whole process to standard error. An existing `tracing` subscriber is kept.
    ///
    /// `RUST_LOG` replaces [`Logging::level`], in the format of `tracing_subscriber::EnvFilter`. Without it, messages
    /// of the HTTP and TLS libraries below `info`, and of kube's watchers below `error`, are not logged.
    pub fn init(self) {
        let filter = match std::env::var("RUST_LOG") {
            Ok(directives) if !directives.is_empty() => EnvFilter::new(directives),
            _ => self.filter(),
        };
        let ansi = io::stderr().is_terminal();
        // Fails if the program has installed its own subscriber, which is then kept.
        let _ = self.build(|| Lossy, filter, ansi).try_init();
    }

    /// Returns a subscriber for a part of a program or a test. It ignores `RUST_LOG`.
    pub fn subscriber<W>(self, writer: W) -> Box<dyn Subscriber + Send + Sync>
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        self.build(writer, self.filter(), false)
    }

    fn filter(self) -> EnvFilter {
        EnvFilter::new(format!("{},{}", self.level.0, QUIET.join(",")))
    }

    fn build<W>(self, writer: W, filter: EnvFilter, ansi: bool) -> Box<dyn Subscriber + Send + Sync>
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let sampler = self.sampling.then(|| Sampler::new(Sampling::default()));
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(ansi)
            .with_writer(writer)
            // Otherwise the error would also be written to standard error, and a failure of that write would panic.
            .log_internal_errors(false);
        match self.encoder {
            Encoder::Console => Box::new(subscriber.event_format(self.console()).finish().with(sampler)),
            Encoder::Json => {
                let subscriber = subscriber.fmt_fields(JsonFields::new());
                Box::new(subscriber.event_format(self.json()).finish().with(sampler))
            }
        }
    }

    fn console(self) -> Traced<Format<tracing_subscriber::fmt::format::Full, TimeEncoding>> {
        let format = Format::default()
            .with_timer(self.time_encoding)
            .with_target(false);
        Traced {
            format,
            from: self.stacktrace_level,
            join: |line, trace| format!("{line}\n{trace}"),
        }
    }

    fn json(self) -> Traced<JsonLine> {
        Traced {
            format: JsonLine {
                time_encoding: self.time_encoding,
            },
            from: self.stacktrace_level,
            join: |line, trace| {
                let object = line.strip_suffix('}').unwrap_or(line);
                format!("{object},\"stacktrace\":{}}}", serde_json::json!(trace))
            },
        }
    }
}

/// Standard error, ignoring write errors: an operator continues if its log cannot be written.
struct Lossy;

impl io::Write for Lossy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Lines that cannot be written are lost.
        let _ = io::Write::write_all(&mut io::stderr(), bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// === impl StacktraceLevel ===

impl StacktraceLevel {
    fn is_reached(self, level: Level) -> bool {
        match self {
            Self::Info => level <= Level::INFO,
            Self::Error => level <= Level::ERROR,
            Self::Panic => false,
        }
    }
}

/// A format that adds a stack trace to messages of a minimum level.
struct Traced<F> {
    format: F,
    from: Option<StacktraceLevel>,
    /// Joins a line, without its newline, and a trace.
    join: fn(&str, &str) -> String,
}

impl<S, N, F> FormatEvent<S, N> for Traced<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        if !self.from.is_some_and(|from| from.is_reached(level)) {
            return self.format.format_event(context, writer, event);
        }
        let mut line = String::new();
        self.format.format_event(context, Writer::new(&mut line), event)?;
        let trace = Backtrace::force_capture().to_string();
        writeln!(writer, "{}", (self.join)(line.trim_end(), trace.trim_end()))
    }
}

// === impl TimeEncoding ===

impl TimeEncoding {
    fn write(self, now: jiff::Timestamp, out: &mut impl fmt::Write) -> fmt::Result {
        let nanoseconds = now.as_nanosecond();
        match self {
            Self::Epoch => write!(out, "{}.{:09}", now.as_second(), now.subsec_nanosecond()),
            Self::Millis => write!(out, "{}.{:06}", nanoseconds / 1_000_000, nanoseconds % 1_000_000),
            Self::Nano => write!(out, "{nanoseconds}"),
            Self::Iso8601 => write!(out, "{now:.3}"),
            Self::Rfc3339 => write!(out, "{now:.0}"),
            Self::Rfc3339nano => write!(out, "{now}"),
        }
    }
}

impl FormatTime for TimeEncoding {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        self.write(crate::clock::now(), writer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use parking_lot::Mutex;

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

    #[test]
    fn times_have_the_forms_of_zap() {
        let now = "2006-01-02T15:04:05.006007Z".parse().unwrap();
        let text = |encoding: TimeEncoding| {
            let mut text = String::new();
            encoding.write(now, &mut text).unwrap();
            text
        };
        assert_eq!(text(TimeEncoding::Epoch), "1136214245.006007000");
        assert_eq!(text(TimeEncoding::Millis), "1136214245006.007000");
        assert_eq!(text(TimeEncoding::Nano), "1136214245006007000");
        assert_eq!(text(TimeEncoding::Iso8601), "2006-01-02T15:04:05.006Z");
        assert_eq!(text(TimeEncoding::Rfc3339), "2006-01-02T15:04:05Z");
        assert_eq!(text(TimeEncoding::Rfc3339nano), "2006-01-02T15:04:05.006007Z");
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Written {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    /// Returns the output for an error message and for an info message.
    fn written(logging: Logging) -> Vec<String> {
        let written = Written::default();
        tracing::subscriber::with_default(logging.subscriber(written.clone()), || {
            tracing::debug!("Not logged");
            tracing::info!(size = 3, "Starting");
            tracing::error!("Failed");
        });
        let text = String::from_utf8(written.0.lock().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_contain_the_fields_of_their_spans() {
        let written = Written::default();
        tracing::subscriber::with_default(Logging::default().subscriber(written.clone()), || {
            let outer =
                tracing::info_span!("reconcile", controller = "memcached", name = "a", step = 1).entered();
            let inner = tracing::info_span!("apply", step = 2, kind = tracing::field::Empty).entered();
            inner.record("kind", "Deployment");
            tracing::warn!(step = 3, level = "high", error = %"a \"b\"", "Failed");
            drop(inner);
            drop(outer);
            tracing::info!(ratio = 0.5, ready = true);
        });
        let text = String::from_utf8(written.0.lock().clone()).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let without_time = |line: &serde_json::Value| {
            let mut line = line.clone();
            assert!(line["ts"].take().is_string());
            line
        };
        let target = "operator_runtime::logging::tests";
        let wanted = serde_json::json!({
            "level": "warn", "ts": null, "msg": "Failed", "controller": "memcached", "name": "a", "step": 3,
            "kind": "Deployment", "fields.level": "high", "error": "a \"b\"", "logger": target,
        });
        assert_eq!(without_time(&lines[0]), wanted);
        let wanted = serde_json::json!({
            "level": "info", "ts": null, "msg": null, "ratio": 0.5, "ready": true, "logger": target,
        });
        assert_eq!(without_time(&lines[1]), wanted);
    }

    #[test]
    fn only_repeated_messages_are_sampled() {
        let flood = |sampling| {
            let (written, logging) = (
                Written::default(),
                Logging {
                    sampling,
                    ..Logging::default()
                },
            );
            tracing::subscriber::with_default(logging.subscriber(written.clone()), || {
                for number in 0..1000 {
                    tracing::info!(number, "Again");
                }
                tracing::info!("Something else");
            });
            let text = String::from_utf8(written.0.lock().clone()).unwrap();
            assert_eq!(text.matches("Something else").count(), 1);
            text.matches("Again").count()
        };
        assert_eq!(flood(false), 1000);
        // The first 100, and 9 of the 900 others. There are more if a new second begins in between.
        let sampled = flood(true);
        assert!((109..1000).contains(&sampled), "{sampled}");
    }

    #[test]
    fn errors_have_a_stack_trace_if_enabled() {
        let with = |encoder, stacktrace_level| {
            written(Logging {
                encoder,
                stacktrace_level,
                ..Logging::default()
            })
        };
        let lines = with(Encoder::Json, Some(StacktraceLevel::Error));
        let lines: Vec<serde_json::Value> = lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            (&lines[0]["msg"], &lines[0]["size"]),
            (&"Starting".into(), &3.into())
        );
        assert!(lines[0]["stacktrace"].is_null());
        assert!(lines[1]["stacktrace"].as_str().unwrap().contains("0:"));
        assert!(with(Encoder::Console, Some(StacktraceLevel::Error)).len() > 2);
        assert_eq!(with(Encoder::Console, None).len(), 2);
        assert_eq!(with(Encoder::Console, Some(StacktraceLevel::Panic)).len(), 2);
    }
}
