//! [`Packed`]: objects as short byte strings, for the cache between reads. Pure.
//!
//! A JSON value is one byte for its type, followed by its content. Lists and maps are followed by their members. Small
//! numbers, short strings and small member counts fit in the type byte. Objects of one kind become small because
//!
//! * strings of several objects, such as the names of fields, are stored as their number in a [`Dictionary`];
//! * a string that occurs again in an object is stored as a reference to the first occurrence;
//! * UUIDs, times and decimal numbers in strings are stored in binary form.
//!
//! The namespace, name, UID and resource version precede the object and are read without decoding it. Decoding returns
//! exactly the packed value, including the bits of strings and floats.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use kube::core::ObjectMeta;
use serde::de::{DeserializeOwned, Deserializer};

mod dictionary;
mod read;
mod write;

pub(super) use dictionary::Dictionary;
pub(super) use read::{Corrupt, Reader, Token};
pub(super) use write::Writer;

const NULL: u8 = 0x00;
const FALSE: u8 = 0x01;
const TRUE: u8 = 0x02;
/// Eight bytes, the least significant first.
const FLOAT: u8 = 0x03;
/// The number.
const NUMBER: u8 = 0x04;
/// The number minus one, without its sign.
const NEGATIVE: u8 = 0x05;
/// The length, and the string.
const TEXT: u8 = 0x06;
/// Sixteen bytes.
const UUID: u8 = 0x07;
/// `1970-01-01T00:00:00Z` and later: the seconds.
const SECONDS: u8 = 0x08;
/// Like [`SECONDS`] with six digits of a fraction: the microseconds.
const MICROSECONDS: u8 = 0x09;
/// A string that is a number: the number.
const DECIMAL: u8 = 0x0a;
/// The position of the same string.
const AGAIN: u8 = 0x0b;
/// The items, and [`END`].
const LIST: u8 = 0x0c;
/// The members, and [`END`].
const MAP: u8 = 0x0d;
const END: u8 = 0x0e;

/// A range of type bytes that contain a small number: the first byte and the size.
#[derive(Clone, Copy)]
struct Small(u8, u8);

const SHORT_LIST: Small = Small(0x10, 0x10);
const SHORT_MAP: Small = Small(0x20, 0x20);
const SMALL_NUMBER: Small = Small(0x40, 0x20);
const SHORT_TEXT: Small = Small(0x60, 0x20);
/// The first words of the dictionary.
const WORD: Small = Small(0x80, 0x40);
/// The high part of the number of a later word minus the number of first words. The low part follows.
const LATER_WORD: Small = Small(0xc0, 0x40);

/// The capacity of a dictionary, in words.
const WORDS: usize = WORD.1 as usize + LATER_WORD.1 as usize * 256;

/// A packed object.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Packed(Arc<[u8]>);

/// The identity of an object and its state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Identity<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) uid: Option<&'a str>,
    pub(super) resource_version: Option<&'a str>,
}

// === impl Small ===

impl Small {
    /// Returns the byte for `number` if it is small enough.
    fn byte(self, number: usize) -> Option<u8> {
        let small = u8::try_from(number).ok().filter(|small| *small < self.1)?;
        Some(self.0 + small)
    }

    /// Returns the number in `byte` if it is in this range.
    fn number(self, byte: u8) -> Option<u8> {
        byte.checked_sub(self.0).filter(|number| *number < self.1)
    }
}

// === impl Packed ===

impl Packed {
    /// Packs the object in `body`.
    ///
    /// # Errors
    /// Returns an error if `body` cannot be read or is not JSON.
    pub(super) fn new<'de, D: Deserializer<'de>>(
        identity: &Identity<'_>,
        body: D,
        dictionary: &Dictionary,
    ) -> Result<Self, D::Error> {
        let mut hasher = DefaultHasher::new();
        (identity.namespace, identity.name).hash(&mut hasher);
        dictionary.write(hasher.finish(), |writer| {
            writer.plain(identity.namespace);
            writer.plain(Some(identity.name));
            writer.compact(identity.uid);
            writer.compact(identity.resource_version);
            writer.value(body)?;
            Ok(Self(writer.bytes().into()))
        })
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.header().plain()
    }

    pub(super) fn name(&self) -> &str {
        let mut header = self.header();
        header.skip();
        header.plain().unwrap_or_default()
    }

    /// Returns the resource version as a number, or zero if it is not one.
    pub(super) fn revision(&self) -> u64 {
        let mut header = self.header();
        (0..3).for_each(|_| header.skip());
        header.decimal().unwrap_or_default()
    }

    pub(super) fn has_uid(&self, uid: &str) -> bool {
        self.text_of_header(2).is_some_and(|own| own == uid)
    }

    /// Returns true if it is another state of the same object.
    pub(super) fn has_uid_of(&self, other: &Self) -> bool {
        self.text_of_header(2) == other.text_of_header(2)
    }

    /// Returns the identity as metadata.
    pub(super) fn metadata(&self) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name().to_owned()),
            namespace: self.namespace().map(str::to_owned),
            uid: self.uid(),
            resource_version: self.resource_version(),
            ..ObjectMeta::default()
        }
    }

    pub(super) fn uid(&self) -> Option<String> {
        self.text_of_header(2)
    }

    pub(super) fn resource_version(&self) -> Option<String> {
        self.text_of_header(3)
    }

    fn text_of_header(&self, index: usize) -> Option<String> {
        let mut header = self.header();
        (0..index).for_each(|_| header.skip());
        match header.token().ok()? {
            Token::Text(text) => Some(text.into_owned()),
            _ => None,
        }
    }

    /// Decodes the object as a `K`.
    ///
    /// # Errors
    /// Returns an error if the object cannot be decoded as `K`.
    pub(super) fn decode<K: DeserializeOwned>(&self, dictionary: &Dictionary) -> Result<K, Corrupt> {
        dictionary.read(|words| K::deserialize(&mut self.body(words)))
    }

    /// Decodes the value at a path of names as a `T`. Returns `None` if it is missing.
    pub(super) fn find<T: DeserializeOwned>(&self, path: &[&str], dictionary: &Dictionary) -> Option<T> {
        dictionary.read(|words| {
            let mut reader = self.body(words);
            for name in path {
                reader.enter(name).ok().filter(|found| *found)?;
            }
            T::deserialize(&mut reader).ok()
        })
    }

    /// Returns its size in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the bytes have another owner.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Returns an address that is unique among all live objects.
    pub(super) fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    fn header(&self) -> Reader<'_> {
        Reader::new(&self.0, &[])
    }

    fn body<'a>(&'a self, words: &'a [Arc<str>]) -> Reader<'a> {
        let mut reader = Reader::new(&self.0, words);
        (0..4).for_each(|_| reader.skip());
        reader
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({} bytes)", self.name(), self.len())
    }
}

#[cfg(test)]
mod tests;
