//! Parsing of untrusted Rust source. `syn` recurses for each bracket, so the nesting is limited before parsing.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The maximum nesting of brackets. rustc itself stops at 128 in types and expressions.
const DEPTH: usize = 200;

/// Returns the syntax tree of a file.
pub(crate) fn parse(text: &str) -> syn::Result<syn::File> {
    // The parser reports invalid tokens, with their position.
    if let Ok(tokens) = text.parse::<TokenStream>()
        && is_deeper(tokens, DEPTH)
    {
        let message = format!("brackets are nested deeper than {DEPTH}");
        return Err(syn::Error::new(proc_macro2::Span::call_site(), message));
    }
    syn::parse_file(text)
}

fn is_deeper(tokens: TokenStream, left: usize) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) if group.delimiter() != Delimiter::None => {
            left == 0 || is_deeper(group.stream(), left - 1)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_that_is_nested_without_end_is_an_error() {
        let nested = |depth: usize| format!("fn f() {{ {}{} }}", "(".repeat(depth), ")".repeat(depth));
        assert!(parse(&nested(100)).is_ok());
        let Err(error) = parse(&nested(100_000)) else {
            panic!("it was taken");
        };
        assert!(error.to_string().contains("nested deeper"), "{error}");
    }
}
