//! The protobuf wire format: tags, varints and lengths. Every input results in a value or an [`Error`].

use super::Error;
use super::table::{Field, FieldType};

/// A field's value on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WireValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    /// Returns the value of a map entry that is omitted on the wire.
    pub(super) fn empty(kind: FieldType) -> Self {
        match kind {
            FieldType::Boolean | FieldType::Integer => Self::Varint(0),
            FieldType::Double => Self::Fixed64(0),
            FieldType::String | FieldType::Bytes | FieldType::Message(_) => Self::Bytes(&[]),
        }
    }

    pub(super) fn bytes(&self, field: &Field) -> Result<&'a [u8], Error> {
        match *self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(self.mismatch(field)),
        }
    }

    pub(super) fn varint(&self, field: &Field) -> Result<u64, Error> {
        match *self {
            Self::Varint(value) => Ok(value),
            _ => Err(self.mismatch(field)),
        }
    }

    pub(super) fn double(&self, field: &Field) -> Result<f64, Error> {
        match *self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(self.mismatch(field)),
        }
    }

    fn mismatch(&self, field: &Field) -> Error {
        let wire_type = match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32(_) => 5,
        };
        Error::WrongWireType {
            wire_type,
            field: field.name.clone(),
        }
    }
}

/// Reads the fields of one message in their order.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the next field's number and value, or `None` at the end of the message.
    pub(super) fn next_field(&mut self) -> Result<Option<(u32, WireValue<'a>)>, Error> {
        if self.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| Error::Overflow)?;
        let value = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Error::Overflow)?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => WireValue::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(Error::WireType(u8::try_from(other).unwrap_or_default())),
        };
        Ok(Some((number, value)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::Overflow)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Error::UnexpectedEnd)?;
        self.rest = rest;
        Ok(*head)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(Error::UnexpectedEnd)?;
        self.rest = rest;
        Ok(head)
    }
}

const LENGTH_DELIMITED: u64 = 2;
const SEVEN_BITS: u64 = 0x7f;
const MORE: u8 = 0x80;

/// Builds a message. Fields are written in the order of the calls, even if they are empty.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value > SEVEN_BITS {
            self.bytes.push((value & SEVEN_BITS) as u8 | MORE);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Appends a field whose value has a length: a string, bytes, or another message.
    pub(crate) fn message(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends an integer, or a boolean as 0 or 1.
    pub(crate) fn integer(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    /// Appends a floating-point number.
    pub(crate) fn double(&mut self, field: u64, value: f64) -> &mut Self {
        self.varint(field << 3 | 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }
}
