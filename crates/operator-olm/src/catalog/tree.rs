//! Errors as a tree: [`Fault`].

/// An error with nested errors.
#[derive(Debug)]
pub(super) struct Fault {
    text: String,
    under: Vec<Fault>,
}

impl Fault {
    pub(super) fn of(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            under: Vec::new(),
        }
    }

    /// Returns an error that contains the given ones; `None` if there are none.
    pub(super) fn around(text: impl Into<String>, under: Vec<Self>) -> Option<Self> {
        let text = text.into();
        (!under.is_empty()).then_some(Self { text, under })
    }

    /// Formats the tree. It is at most four levels deep, like the types of a catalog.
    pub(super) fn draw(&self) -> String {
        let mut out = self.head();
        self.draw_under("", &mut out);
        out
    }

    fn head(&self) -> String {
        let colon = if self.under.is_empty() { "" } else { ":" };
        format!("{}{colon}", self.text)
    }

    fn draw_under(&self, indent: &str, out: &mut String) {
        for (index, fault) in self.under.iter().enumerate() {
            let is_last = index + 1 == self.under.len();
            let (branch, space) = if is_last {
                ("└── ", "    ")
            } else {
                ("├── ", "│   ")
            };
            out.push('\n');
            out.push_str(indent);
            out.push_str(branch);
            out.push_str(&fault.head());
            fault.draw_under(&format!("{indent}{space}"), out);
        }
    }
}
