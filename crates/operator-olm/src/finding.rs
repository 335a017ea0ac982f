//! The findings of validators: [`Finding`].

use apimachinery::yaml::Place;

use crate::Manifest;

/// The level of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A problem that does not make the bundle invalid.
    Warning,
    /// A problem that makes the bundle invalid.
    Error,
}

impl Level {
    /// Returns the word at the start of messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "Warning",
            Self::Error => "Error",
        }
    }
}

/// A problem of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The validator that reports it.
    pub validator: &'static str,
    /// The type, such as `CSVFileNotValid`.
    pub kind: &'static str,
    /// The level.
    pub level: Level,
    /// The field; empty if the finding is not about one field.
    pub field: String,
    /// The value; `None` omits it from the message.
    pub value: Option<String>,
    /// The message.
    pub detail: String,
    /// The file, relative to the bundle.
    pub path: String,
    /// The position in the file.
    pub place: Place,
    /// An edit that corrects the problem.
    pub fix: Option<Fix>,
}

/// An edit of one line of a file: a text after the position of the finding is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The text to replace.
    pub from: String,
    /// The new text.
    pub to: String,
}

impl Finding {
    /// Formats the finding as `bundle validate` prints it: `Error: Field F, Value V: DETAIL`.
    pub fn message(&self) -> String {
        let subject = match (self.field.is_empty(), &self.value) {
            (false, Some(value)) => format!("Field {}, Value {value}", self.field),
            (false, None) => format!("Field {}", self.field),
            (true, Some(value)) => format!("Value {value}"),
            (true, None) => String::new(),
        };
        format!("{}: {subject}: {}", self.level.as_str(), self.detail)
    }

    /// Returns true if the finding is an error.
    pub fn is_error(&self) -> bool {
        self.level == Level::Error
    }

    /// Applies the fix to the content of the file; returns `None` if the text to replace was not found.
    pub fn fixed(&self, content: &str) -> Option<String> {
        let fix = self.fix.as_ref()?;
        let before: usize = content
            .split_inclusive('\n')
            .take(self.place.line.checked_sub(1)?)
            .map(str::len)
            .sum();
        let line = content.get(before..)?.lines().next()?;
        let column = line.char_indices().nth(self.place.column.checked_sub(1)?)?.0;
        let at = before + column + line.get(column..)?.find(&fix.from)?;
        let (head, tail) = (content.get(..at)?, content.get(at + fix.from.len()..)?);
        Some(format!("{head}{}{tail}", fix.to))
    }
}

/// The findings of one validator.
pub(crate) struct Findings {
    validator: &'static str,
    pub(crate) list: Vec<Finding>,
}

impl Findings {
    pub(crate) fn new(validator: &'static str) -> Self {
        Self {
            validator,
            list: Vec::new(),
        }
    }

    /// Adds a finding about a node of a manifest. The field is empty.
    pub(crate) fn add(
        &mut self,
        level: Level,
        kind: &'static str,
        value: Option<String>,
        detail: impl Into<String>,
        (manifest, pointer): (&Manifest, &str),
    ) -> &mut Finding {
        let at = self.list.len();
        self.list.push(Finding {
            validator: self.validator,
            kind,
            level,
            field: String::new(),
            value,
            detail: detail.into(),
            path: manifest.path.clone(),
            place: manifest.place(pointer),
            fix: None,
        });
        &mut self.list[at]
    }
}
