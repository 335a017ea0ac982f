//! [`GoFlags`], flags in the syntax of Go programs: `--name=value`, `--name value`, `-name`, and booleans without a
//! value.

use std::collections::BTreeMap;

/// A flag that a program accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    /// The type in the usage text. Empty for a boolean, which needs no value.
    pub(crate) type_: &'static str,
    pub(crate) help: &'static str,
}

/// The parsed flags.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GoFlags {
    /// The values of every known flag, in the order given.
    values: BTreeMap<&'static str, Vec<String>>,
    pub(crate) help: bool,
    pub(crate) version: bool,
}

/// An error of parsing flags.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum GoFlagsError {
    #[error("no arguments are taken, but got {0:?}")]
    Positional(String),
    #[error("flag needs an argument: --{0}")]
    Valueless(&'static str),
    #[error("unknown flag: --{0}")]
    Unknown(String),
    #[error("invalid argument {value:?} for \"--{flag}\" flag: a boolean is needed")]
    NotBoolean { flag: &'static str, value: String },
}

impl GoFlags {
    /// Parses the arguments after the name of the program.
    pub(crate) fn parse(
        known: &'static [Flag],
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, GoFlagsError> {
        let mut given = Self::default();
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            if argument.is_empty() {
                // Scripts pass empty arguments for variables that are not set.
                continue;
            }
            let Some(flag) = argument.strip_prefix('-').filter(|flag| !flag.is_empty()) else {
                return Err(GoFlagsError::Positional(argument));
            };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            let next = || arguments.next_if(|next| !next.starts_with('-'));
            match known.iter().find(|flag| flag.name == name) {
                Some(flag) if flag.type_.is_empty() => {
                    let value = value.unwrap_or_else(|| "true".to_owned());
                    let (flag, value) = (flag.name, boolean(flag.name, value)?);
                    given.values.entry(flag).or_default().push(value);
                }
                Some(flag) => {
                    let value = value.or_else(next).ok_or(GoFlagsError::Valueless(flag.name))?;
                    given.values.entry(flag.name).or_default().push(value);
                }
                None => given.special(name)?,
            }
        }
        Ok(given)
    }

    fn special(&mut self, name: &str) -> Result<(), GoFlagsError> {
        match name {
            "help" | "h" => self.help = true,
            "version" => self.version = true,
            _ => return Err(GoFlagsError::Unknown(name.to_owned())),
        }
        Ok(())
    }

    /// Returns the items of all values of a list flag.
    pub(crate) fn parts(&self, name: &str) -> impl Iterator<Item = &str> {
        let values = self.values.get(name).into_iter().flatten();
        let parts = values.flat_map(|value| value.split(','));
        parts.map(str::trim).filter(|part| !part.is_empty())
    }

    /// Returns the names of the given flags.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.values.keys().copied()
    }

    /// Returns the last value of a flag. An empty value counts as not given.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let value = self.values.get(name).and_then(|values| values.last());
        value.map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Parses a boolean in one of Go's spellings.
fn boolean(flag: &'static str, value: String) -> Result<String, GoFlagsError> {
    match value.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok("true".to_owned()),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok("false".to_owned()),
        _ => Err(GoFlagsError::NotBoolean { flag, value }),
    }
}

/// Returns the text of `--help`. Test environments search it for flags, so each line begins with a flag.
pub(crate) fn usage(program: &str, about: &str, known: &[Flag]) -> String {
    let mut text = format!("{about}\n\nUsage:\n  {program} [flags]\n\nFlags:\n");
    for flag in known {
        let left = format!("--{} {}", flag.name, flag.type_);
        text.push_str(&format!("      {left:<45} {}\n", flag.help));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Flag] = &[
        Flag {
            name: "cert-dir",
            type_: "string",
            help: "",
        },
        Flag {
            name: "secure-port",
            type_: "int",
            help: "",
        },
        Flag {
            name: "allow-privileged",
            type_: "",
            help: "",
        },
    ];

    fn parse(line: &str) -> Result<GoFlags, GoFlagsError> {
        GoFlags::parse(KNOWN, line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn every_way_to_write_a_flag_is_read() {
        for line in [
            "--cert-dir=d --secure-port=1 --allow-privileged=true",
            "--cert-dir d --secure-port 1 --allow-privileged",
            "-cert-dir=d -allow-privileged -secure-port 1",
            "--cert-dir=old --cert-dir d --allow-privileged --secure-port=1",
        ] {
            let given = parse(line).unwrap();
            assert_eq!(given.value("cert-dir"), Some("d"), "{line}");
            assert_eq!(given.value("secure-port"), Some("1"), "{line}");
            assert_eq!(given.value("allow-privileged"), Some("true"), "{line}");
        }
    }

    #[test]
    fn unknown_flags_and_odd_booleans_are_refused() {
        assert_eq!(parse("--what=1"), Err(GoFlagsError::Unknown("what".to_owned())));
        assert_eq!(parse("--switch"), Err(GoFlagsError::Unknown("switch".to_owned())));
        let flag = "allow-privileged";
        let value = "perhaps".to_owned();
        assert_eq!(
            parse("--allow-privileged=perhaps"),
            Err(GoFlagsError::NotBoolean { flag, value })
        );
        assert_eq!(parse("--allow-privileged=F").unwrap().value(flag), Some("false"));
    }

    #[test]
    fn lists_are_gathered_from_every_value() {
        let given = parse("--cert-dir=a,b --cert-dir c --cert-dir=").unwrap();
        assert_eq!(given.parts("cert-dir").collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(given.names().collect::<Vec<_>>(), ["cert-dir"]);
    }

    #[test]
    fn invalid_flags_are_rejected() {
        assert_eq!(parse("serve"), Err(GoFlagsError::Positional("serve".to_owned())));
        assert_eq!(parse("-"), Err(GoFlagsError::Positional("-".to_owned())));
        assert_eq!(
            parse("--secure-port --cert-dir=d"),
            Err(GoFlagsError::Valueless("secure-port"))
        );
    }

    #[test]
    fn the_usage_begins_lines_with_flags() {
        let usage = usage("kube-apiserver", "About.", KNOWN);
        assert!(
            usage
                .lines()
                .any(|line| line.trim_start().starts_with("--secure-port "))
        );
    }
}
