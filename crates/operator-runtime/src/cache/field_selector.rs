//! [`FieldSelector`], in the form of `kubectl get --field-selector`. The cache supports only `=`.

/// Requirements on fields. Converts from a string in the form of `kubectl get --field-selector`, and from a tuple of a
/// field and a value. An invalid string is an error of the list.
#[derive(Clone, Debug, Default)]
pub struct FieldSelector {
    text: Vec<String>,
    requirements: Vec<(String, String)>,
    error: Option<String>,
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Adds the requirements of a selector.
    fn add(&mut self, selector: &str) {
        if selector.trim().is_empty() {
            return;
        }
        self.text.push(selector.to_owned());
        match parse(selector) {
            Ok(requirements) => self.requirements.extend(requirements),
            Err(error) => self.error = Some(error),
        }
    }

    /// Adds one requirement.
    fn add_field(&mut self, field: &str, value: &str) {
        self.text.push(format!("{field}={}", escape(value)));
        self.requirements.push((field.to_owned(), value.to_owned()));
    }

    /// Returns the fields and their values.
    ///
    /// # Errors
    /// Returns an error for an invalid selector and for operators other than `=`.
    pub(super) fn requirements(&self) -> Result<&[(String, String)], String> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(&self.requirements),
        }
    }

    /// Returns the selector for the API server.
    pub(super) fn text(&self) -> Option<String> {
        (!self.text.is_empty()).then(|| self.text.join(","))
    }
}

impl From<&str> for FieldSelector {
    fn from(selector: &str) -> Self {
        let mut fields = Self::default();
        fields.add(selector);
        fields
    }
}

impl From<(&str, &str)> for FieldSelector {
    fn from((field, value): (&str, &str)) -> Self {
        let mut fields = Self::default();
        fields.add_field(field, value);
        fields
    }
}

fn parse(selector: &str) -> Result<Vec<(String, String)>, String> {
    let terms = split(selector).into_iter().filter(|term| !term.is_empty());
    terms.map(|term| parse_term(selector, &term)).collect()
}

fn parse_term(selector: &str, term: &str) -> Result<(String, String), String> {
    if term.contains("!=") {
        return Err("non-exact field matches are not supported by the cache".to_owned());
    }
    let unclear = || format!("invalid selector: '{selector}'; can't understand '{term}'");
    let (field, value) = term.split_once('=').ok_or_else(unclear)?;
    let value = value.strip_prefix('=').unwrap_or(value);
    let value = unescape(value).ok_or_else(|| {
        format!(
            "invalid selector: '{selector}'; invalid field selector: invalid escape sequence in '{value}'"
        )
    })?;
    Ok((field.trim().to_owned(), value))
}

/// Splits at commas that are not escaped.
fn split(selector: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut is_escaped = false;
    for character in selector.chars() {
        if character == ',' && !is_escaped {
            terms.push(String::new());
            continue;
        }
        is_escaped = character == '\\' && !is_escaped;
        if let Some(term) = terms.last_mut() {
            term.push(character);
        }
    }
    terms
}

/// Escapes backslashes, commas and equals signs.
fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        if matches!(character, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn unescape(value: &str) -> Option<String> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.push(
                characters
                    .next()
                    .filter(|next| matches!(next, '\\' | ',' | '='))?,
            ),
            '=' => return None,
            other => plain.push(other),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(selector: &str) -> Result<Vec<(String, String)>, String> {
        let mut fields = FieldSelector::default();
        fields.add(selector);
        fields.requirements().map(<[_]>::to_vec)
    }

    #[test]
    fn values_have_one_or_two_equals_signs() {
        let two = fields("spec.nodeName=n-1,status.phase==Running").unwrap();
        let expected = [("spec.nodeName", "n-1"), ("status.phase", "Running")];
        assert_eq!(
            two,
            expected.map(|(field, value)| (field.to_owned(), value.to_owned()))
        );
        assert_eq!(fields("").unwrap(), []);
        assert_eq!(fields("a=").unwrap(), [("a".to_owned(), String::new())]);
    }

    #[test]
    fn anything_but_a_value_is_an_error() {
        let error = fields("a=1,b!=2").unwrap_err();
        assert_eq!(error, "non-exact field matches are not supported by the cache");
        assert_eq!(
            fields("a").unwrap_err(),
            "invalid selector: 'a'; can't understand 'a'"
        );
        assert!(fields("a=b=c").is_err());
        assert!(fields("a=\\x").is_err());
    }

    proptest! {
        /// Escaping and parsing are inverse.
        #[test]
        fn any_value_survives(value in any::<String>()) {
            let mut said = FieldSelector::default();
            said.add_field("spec.a", &value);
            let heard = fields(&said.text().unwrap()).unwrap();
            prop_assert_eq!(heard, vec![("spec.a".to_owned(), value)]);
        }
    }
}
