//! [`Reader`], a deserializer of packed bytes for every type that JSON can represent.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::value::CowStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::write::{is_dash_of_uuid, time_text};
use super::{
    AGAIN, DECIMAL, END, FALSE, FLOAT, LATER_WORD, LIST, MAP, MICROSECONDS, NEGATIVE, NULL, NUMBER, SECONDS,
    SHORT_LIST, SHORT_MAP, SHORT_TEXT, SMALL_NUMBER, TEXT, TRUE, UUID, WORD,
};

/// The error of reading bytes as a type.
pub(in crate::cache) type Corrupt = serde::de::value::Error;

type Result<T> = std::result::Result<T, Corrupt>;

/// Reads values in sequence.
#[derive(Clone)]
pub(in crate::cache) struct Reader<'de> {
    bytes: &'de [u8],
    at: usize,
    words: &'de [Arc<str>],
}

/// A value, or the beginning of a value with members.
pub(in crate::cache) enum Token<'de> {
    Null,
    Bool(bool),
    Number(u64),
    Negative(i64),
    Float(f64),
    Text(Cow<'de, str>),
    List(Count),
    Map(Count),
    End,
}

/// The number of remaining members. `None` if an end marker follows them.
#[derive(Clone, Copy)]
pub(in crate::cache) struct Count(Option<u8>);

struct Members<'r, 'de> {
    reader: &'r mut Reader<'de>,
    left: Count,
}

/// The name of a member: a string, which also reads as a number for maps with numeric keys.
struct Name<'de>(Cow<'de, str>);

struct Variant<'r, 'de>(Cow<'de, str>, &'r mut Reader<'de>);

// === impl Reader ===

impl<'de> Reader<'de> {
    pub(in crate::cache) fn new(bytes: &'de [u8], words: &'de [Arc<str>]) -> Self {
        Self { bytes, at: 0, words }
    }

    pub(in crate::cache) fn token(&mut self) -> Result<Token<'de>> {
        let byte = self.byte()?;
        if let Some(number) = WORD.number(byte) {
            return self.word(number.into());
        }
        if let Some(high) = LATER_WORD.number(byte) {
            let number = u16::from_be_bytes([high, self.byte()?]) + u16::from(WORD.1);
            return self.word(number.into());
        }
        if let Some(length) = SHORT_TEXT.number(byte) {
            return self.text(u64::from(length));
        }
        if let Some(count) = SHORT_MAP.number(byte) {
            return Ok(Token::Map(Count(Some(count))));
        }
        if let Some(count) = SHORT_LIST.number(byte) {
            return Ok(Token::List(Count(Some(count))));
        }
        if let Some(number) = SMALL_NUMBER.number(byte) {
            return Ok(Token::Number(number.into()));
        }
        match byte {
            NULL => Ok(Token::Null),
            FALSE => Ok(Token::Bool(false)),
            TRUE => Ok(Token::Bool(true)),
            FLOAT => Ok(Token::Float(f64::from_le_bytes(self.array()?))),
            NUMBER => Ok(Token::Number(self.varint()?)),
            NEGATIVE => self.negative(),
            TEXT => {
                let length = self.varint()?;
                self.text(length)
            }
            UUID => Ok(Token::Text(uuid_text(self.array()?).into())),
            SECONDS | MICROSECONDS => {
                let text = time_text(byte, self.varint()?);
                Ok(Token::Text(text.ok_or_else(corrupt)?.into()))
            }
            DECIMAL => Ok(Token::Text(self.varint()?.to_string().into())),
            AGAIN => self.again(),
            LIST => Ok(Token::List(Count(None))),
            MAP => Ok(Token::Map(Count(None))),
            END => Ok(Token::End),
            _ => Err(corrupt()),
        }
    }

    /// Skips one value.
    pub(super) fn skip(&mut self) {
        // An unreadable value ends the input.
        if self.pass().is_err() {
            self.at = self.bytes.len();
        }
    }

    fn pass(&mut self) -> Result<()> {
        match self.bytes.get(self.at) {
            Some(&(SECONDS | MICROSECONDS | DECIMAL | AGAIN)) => {
                self.at += 1;
                self.varint().map(drop)
            }
            Some(&UUID) => {
                self.at += 1;
                self.array::<16>().map(drop)
            }
            _ => match self.token()? {
                Token::List(mut left) => {
                    while left.next(self)? {
                        self.pass()?;
                    }
                    Ok(())
                }
                Token::Map(mut left) => {
                    while left.next(self)? {
                        self.pass()?;
                        self.pass()?;
                    }
                    Ok(())
                }
                _ => Ok(()),
            },
        }
    }

    /// Moves to the value of a member of the next map. Returns false if the map does not have it.
    pub(super) fn enter(&mut self, name: &str) -> Result<bool> {
        let Token::Map(mut left) = self.token()? else {
            return Ok(false);
        };
        while left.next(self)? {
            if matches!(self.token()?, Token::Text(own) if own == name) {
                return Ok(true);
            }
            self.pass()?;
        }
        Ok(false)
    }

    /// Reads a string that is stored in full.
    pub(super) fn plain(&mut self) -> Option<&'de str> {
        match self.token() {
            Ok(Token::Text(Cow::Borrowed(text))) => Some(text),
            _ => None,
        }
    }

    /// Reads a string that is stored as a number.
    pub(super) fn decimal(&mut self) -> Option<u64> {
        match self.byte() {
            Ok(DECIMAL) => self.varint().ok(),
            _ => None,
        }
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).ok_or_else(corrupt)?;
        self.at += 1;
        Ok(*byte)
    }

    fn slice(&mut self, length: usize) -> Result<&'de [u8]> {
        let end = self.at.checked_add(length).ok_or_else(corrupt)?;
        let slice = self.bytes.get(self.at..end).ok_or_else(corrupt)?;
        self.at = end;
        Ok(slice)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.slice(N)?.try_into().map_err(|_| corrupt())
    }

    fn varint(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(corrupt())
    }

    fn negative(&mut self) -> Result<Token<'de>> {
        let number = i64::try_from(self.varint()?).map_err(|_| corrupt())?;
        Ok(Token::Negative(-1 - number))
    }

    fn text(&mut self, length: u64) -> Result<Token<'de>> {
        let length = usize::try_from(length).map_err(|_| corrupt())?;
        let text = std::str::from_utf8(self.slice(length)?).map_err(|_| corrupt())?;
        Ok(Token::Text(text.into()))
    }

    fn word(&self, number: usize) -> Result<Token<'de>> {
        let word = self.words.get(number).ok_or_else(corrupt)?;
        Ok(Token::Text(Cow::Borrowed(word)))
    }

    /// Reads the string at an earlier position, which must not be a reference itself.
    fn again(&mut self) -> Result<Token<'de>> {
        let place = usize::try_from(self.varint()?).map_err(|_| corrupt())?;
        if self.bytes.get(place).is_none_or(|byte| *byte == AGAIN) {
            return Err(corrupt());
        }
        let mut there = Self { at: place, ..*self };
        there.token()
    }
}

fn corrupt() -> Corrupt {
    Corrupt::custom("invalid packed object")
}

fn uuid_text(uuid: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for digit in uuid.into_iter().flat_map(|byte| [byte >> 4, byte & 0xf]) {
        if is_dash_of_uuid(text.len()) {
            text.push('-');
        }
        text.push(char::from_digit(digit.into(), 16).unwrap_or_default());
    }
    text
}

// === impl Count ===

impl Count {
    /// Returns true if there is another member, and counts it.
    fn next(&mut self, reader: &mut Reader<'_>) -> Result<bool> {
        match &mut self.0 {
            Some(0) => Ok(false),
            Some(left) => {
                *left -= 1;
                Ok(true)
            }
            None if reader.bytes.get(reader.at) == Some(&END) => {
                reader.at += 1;
                // Later calls return false too.
                self.0 = Some(0);
                Ok(false)
            }
            None => Ok(true),
        }
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Corrupt;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.token()? {
            Token::Null => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Number(value) => visitor.visit_u64(value),
            Token::Negative(value) => visitor.visit_i64(value),
            Token::Float(value) => visitor.visit_f64(value),
            Token::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Token::Text(Cow::Owned(text)) => visitor.visit_string(text),
            Token::List(left) => visit_members(self, left, |members| visitor.visit_seq(members)),
            Token::Map(left) => visit_members(self, left, |members| visitor.visit_map(members)),
            Token::End => Err(corrupt()),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.bytes.get(self.at) == Some(&NULL) {
            self.at += 1;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.token()? {
            Token::Text(name) => visitor.visit_enum(CowStrDeserializer::new(name)),
            Token::Map(left) => visit_members(self, left, |members| {
                let name = if members.left.next(members.reader)? {
                    members.reader.token()?
                } else {
                    Token::Null
                };
                match name {
                    Token::Text(name) => visitor.visit_enum(Variant(name, members.reader)),
                    _ => Err(Corrupt::custom("expected a map with a single member")),
                }
            }),
            _ => Err(Corrupt::custom("expected a text or a map with a single member")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.pass()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map struct identifier
    }
}

/// Calls `visit` to read the members, and fails if any are left.
fn visit_members<'r, 'de, T>(
    reader: &'r mut Reader<'de>,
    left: Count,
    visit: impl FnOnce(&mut Members<'r, 'de>) -> Result<T>,
) -> Result<T> {
    let mut members = Members { reader, left };
    let value = visit(&mut members)?;
    if members.left.next(members.reader)? {
        return Err(Corrupt::custom("more members than the type has"));
    }
    Ok(value)
}

impl<'de> SeqAccess<'de> for Members<'_, 'de> {
    type Error = Corrupt;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if !self.left.next(self.reader)? {
            return Ok(None);
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        self.left.0.map(usize::from)
    }
}

impl<'de> MapAccess<'de> for Members<'_, 'de> {
    type Error = Corrupt;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if !self.left.next(self.reader)? {
            return Ok(None);
        }
        match self.reader.token()? {
            Token::Text(name) => seed.deserialize(Name(name)).map(Some),
            _ => Err(corrupt()),
        }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        self.left.0.map(usize::from)
    }
}

/// Reads the name as the requested type if possible. Otherwise the visitor returns the error.
macro_rules! name_as {
    ($($function:ident => $type:ty, $visit:ident;)*) => {
        $(fn $function<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            match self.0.parse::<$type>() {
                Ok(value) => visitor.$visit(value),
                Err(_) => self.deserialize_any(visitor),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Name<'de> {
    type Error = Corrupt;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Cow::Borrowed(name) => visitor.visit_borrowed_str(name),
            Cow::Owned(name) => visitor.visit_string(name),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        CowStrDeserializer::new(self.0).deserialize_enum(name, variants, visitor)
    }

    name_as! {
        deserialize_bool => bool, visit_bool;
        deserialize_i8 => i64, visit_i64;
        deserialize_i16 => i64, visit_i64;
        deserialize_i32 => i64, visit_i64;
        deserialize_i64 => i64, visit_i64;
        deserialize_i128 => i128, visit_i128;
        deserialize_u8 => u64, visit_u64;
        deserialize_u16 => u64, visit_u64;
        deserialize_u32 => u64, visit_u64;
        deserialize_u64 => u64, visit_u64;
        deserialize_u128 => u128, visit_u128;
        deserialize_f32 => f64, visit_f64;
        deserialize_f64 => f64, visit_f64;
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'r, 'de> EnumAccess<'de> for Variant<'r, 'de> {
    type Error = Corrupt;
    type Variant = &'r mut Reader<'de>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant)> {
        let name: CowStrDeserializer<'de, Corrupt> = self.0.into_deserializer();
        Ok((seed.deserialize(name)?, self.1))
    }
}

impl<'de> VariantAccess<'de> for &mut Reader<'de> {
    type Error = Corrupt;

    fn unit_variant(self) -> Result<()> {
        serde::Deserialize::deserialize(self)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value> {
        self.deserialize_any(visitor)
    }
}
