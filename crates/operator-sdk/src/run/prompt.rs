//! Prompts on a terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::failure::Hinted;

/// The error for a prompt without a terminal.
#[derive(Debug, thiserror::Error)]
#[error("`{0}?` needs an answer, and standard input is not a terminal")]
pub(crate) struct NobodyThere(&'static str);

impl Hinted for NobodyThere {
    fn hint(&self) -> Option<String> {
        Some("confirm on the command line with `--yes`".to_owned())
    }
}

/// Returns true if standard input is a terminal.
pub(crate) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Checks that the user can be asked.
pub(crate) fn check(question: &'static str) -> Result<(), NobodyThere> {
    if is_possible() {
        Ok(())
    } else {
        Err(NobodyThere(question))
    }
}

/// Asks until the answer is y or n. An empty answer selects `usual`.
pub(crate) fn confirm(question: &'static str, usual: bool) -> Result<bool, NobodyThere> {
    check(question)?;
    let choices = if usual { "[Y/n]" } else { "[y/N]" };
    loop {
        let mut err = io::stderr();
        let _ = write!(err, "{question} {choices}? ").and_then(|()| err.flush());
        let mut line = String::new();
        // The end of the input is not an answer, and there will be no more input.
        if io::stdin().lock().read_line(&mut line).unwrap_or(0) == 0 {
            return Err(NobodyThere(question));
        }
        match line.trim().to_lowercase().as_str() {
            "" => return Ok(usual),
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => {}
        }
    }
}
