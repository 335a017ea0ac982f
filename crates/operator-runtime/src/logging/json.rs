//! [`JsonLine`] formats a message as one JSON object with the fields of its spans, as zap writes the values of a
//! logger. It uses zap's names: `level`, `ts`, `msg`, `logger`.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::TimeEncoding;

/// The fields of every line. A message field with one of these names is renamed.
const HEAD: [&str; 4] = ["level", "ts", "msg", "logger"];

/// A formatter that writes one object per line. The fields of inner spans and of the message override those of outer
/// spans.
pub(super) struct JsonLine {
    pub(super) time_encoding: TimeEncoding,
}

/// Collects the fields of a message.
struct Fields<'a>(&'a mut Map<String, Value>);

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Map::new();
        let spans = context
            .event_scope()
            .into_iter()
            .flat_map(|scope| scope.from_root());
        for span in spans {
            let extensions = span.extensions();
            let formatted = extensions.get::<FormattedFields<N>>();
            let parsed = formatted.map(|formatted| serde_json::from_str(&formatted.fields));
            if let Some(Ok(Value::Object(of_span))) = parsed {
                fields.extend(of_span);
            }
        }
        event.record(&mut Fields(&mut fields));
        let mut time = String::new();
        self.time_encoding.write(crate::clock::now(), &mut time)?;
        let metadata = event.metadata();
        let message = fields.remove("message").unwrap_or_default();
        let level = metadata.level().as_str().to_ascii_lowercase();
        write!(
            writer,
            r#"{{"level":"{level}","ts":{},"msg":{message}"#,
            json!(time)
        )?;
        for (name, value) in &fields {
            let name = match HEAD.contains(&name.as_str()) {
                true => json!(format!("fields.{name}")),
                false => json!(name),
            };
            write!(writer, ",{name}:{value}")?;
        }
        writeln!(writer, r#","logger":{}}}"#, json!(metadata.target()))
    }
}

// === impl Fields ===

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        // Fields whose names are Rust keywords are written as `r#type`.
        let name = field.name();
        let name = name.strip_prefix("r#").unwrap_or(name);
        self.0.insert(name.to_owned(), value.into());
    }
}

impl Visit for Fields<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // A value whose formatting fails is truncated.
        let _ = write!(text, "{value:?}");
        self.put(field, text);
    }
}
