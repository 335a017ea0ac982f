//! [`Writer`], a serializer of any value to packed bytes.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::dictionary::Words;
use super::{
    AGAIN, DECIMAL, END, FALSE, FLOAT, LATER_WORD, LIST, MAP, MICROSECONDS, NEGATIVE, NULL, NUMBER, SECONDS,
    SHORT_LIST, SHORT_MAP, SHORT_TEXT, SMALL_NUMBER, TEXT, TRUE, UUID, WORD,
};

/// Number of recent strings of an object that are compared with the next one.
const RECENT: usize = 32;
/// Minimum length of a string for which a reference is shorter.
const WORTH_A_PLACE: usize = 4;

/// The name of the only member of the map that represents a number in serde_json if any crate of the program enables
/// `arbitrary_precision`. The value is the number as text.
const NUMBER_AS_TEXT: &str = "$serde_json::private::Number";

/// True if that feature is enabled. Otherwise a map with this member comes from the user.
static NUMBERS_ARE_MAPS: LazyLock<bool> = LazyLock::new(|| {
    struct Probe;
    impl<'de> Visitor<'de> for Probe {
        type Value = bool;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a number")
        }

        fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
            Ok(false)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
            while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(true)
        }
    }
    let mut number = serde_json::Deserializer::from_str("1");
    Deserializer::deserialize_any(&mut number, Probe).unwrap_or_default()
});

/// Writes one object.
pub(in crate::cache) struct Writer<'w> {
    bytes: Vec<u8>,
    /// The dictionary and the id of the object. Without them strings are stored in full.
    words: Option<(&'w mut Words, u64)>,
    /// The length and position of the strings that can be referenced. Their content is in `recent_texts`.
    recent: Vec<(usize, usize)>,
    recent_texts: String,
}

/// Writes one value.
pub(in crate::cache) struct Seed<'a, 'w>(&'a mut Writer<'w>);

// === impl Writer ===

impl Writer<'static> {
    /// Creates a writer for values that are read soon and not kept: without a dictionary and without the search for
    /// repetitions.
    pub(in crate::cache) fn loose() -> Self {
        Self {
            bytes: Vec::new(),
            words: None,
            recent: Vec::new(),
            recent_texts: String::new(),
        }
    }

    pub(in crate::cache) fn into_bytes(self) -> Box<[u8]> {
        self.bytes.into()
    }
}

impl<'w> Writer<'w> {
    pub(super) fn new(words: &'w mut Words, object: u64) -> Self {
        Self {
            bytes: Vec::with_capacity(1024),
            words: Some((words, object)),
            recent: Vec::with_capacity(RECENT),
            recent_texts: String::with_capacity(256),
        }
    }

    pub(in crate::cache) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes the value of a deserializer.
    pub(in crate::cache) fn value<'de, D: Deserializer<'de>>(&mut self, value: D) -> Result<(), D::Error> {
        self.seed().deserialize(value)
    }

    pub(in crate::cache) fn seed<'a>(&'a mut self) -> Seed<'a, 'w> {
        Seed(self)
    }

    /// Begins a list or a map. Its type byte is written when the number of members is known.
    pub(in crate::cache) fn begin(&mut self) -> usize {
        self.bytes.push(END);
        self.bytes.len() - 1
    }

    /// Ends the map that begins at `start`.
    pub(in crate::cache) fn end_map(&mut self, start: usize, count: usize) {
        self.end(start, SHORT_MAP.byte(count), MAP);
    }

    fn end(&mut self, start: usize, short: Option<u8>, open: u8) {
        if let Some(first) = self.bytes.get_mut(start) {
            *first = short.unwrap_or(open);
        }
        if short.is_none() {
            self.bytes.push(END);
        }
    }

    /// Writes a string in the shortest form.
    pub(in crate::cache) fn text(&mut self, text: &str) {
        let Some((words, _)) = &self.words else {
            return self.as_it_is(text);
        };
        if let Some(number) = words.number(text) {
            return self.word(number);
        }
        if let Some(place) = self.place(text) {
            self.bytes.push(AGAIN);
            return self.varint(place as u64);
        }
        if is_compact(text) {
            return self.compact(Some(text));
        }
        let words = self.words.as_mut();
        match words.and_then(|(words, object)| words.meet(text, *object)) {
            Some(number) => self.word(number),
            None => self.plain(Some(text)),
        }
    }

    /// Writes a string that can be read in place.
    pub(super) fn plain(&mut self, text: Option<&str>) {
        match text {
            Some(text) => {
                self.note_place(text);
                self.as_it_is(text);
            }
            None => self.bytes.push(NULL),
        }
    }

    /// Writes a string without the dictionary, in binary form if it has one.
    pub(super) fn compact(&mut self, text: Option<&str>) {
        let Some(text) = text.filter(|text| is_compact(text)) else {
            return self.plain(text);
        };
        self.note_place(text);
        if let Some(uuid) = uuid(text) {
            self.bytes.push(UUID);
            self.bytes.extend(uuid);
        } else if let Some(number) = decimal(text) {
            self.bytes.push(DECIMAL);
            self.varint(number);
        } else if let Some((unit, time)) = time(text) {
            self.bytes.push(unit);
            self.varint(time);
        } else {
            self.as_it_is(text);
        }
    }

    fn as_it_is(&mut self, text: &str) {
        match SHORT_TEXT.byte(text.len()) {
            Some(byte) => self.bytes.push(byte),
            None => {
                self.bytes.push(TEXT);
                self.varint(text.len() as u64);
            }
        }
        self.bytes.extend(text.as_bytes());
    }

    fn word(&mut self, number: u16) {
        if let Some(byte) = WORD.byte(number.into()) {
            self.bytes.push(byte);
            return;
        }
        let [high, low] = (number - u16::from(WORD.1)).to_be_bytes();
        self.bytes.extend([LATER_WORD.0 + high, low]);
    }

    /// Returns the position of an earlier occurrence of the string.
    fn place(&self, text: &str) -> Option<usize> {
        let mut start = 0;
        for (length, place) in &self.recent {
            if *length == text.len() && self.recent_texts.get(start..start + length) == Some(text) {
                return Some(*place);
            }
            start += length;
        }
        None
    }

    fn note_place(&mut self, text: &str) {
        if text.len() >= WORTH_A_PLACE && text.len() <= 256 && self.recent.len() < RECENT {
            self.recent.push((text.len(), self.bytes.len()));
            self.recent_texts.push_str(text);
        }
    }

    /// Writes a number that is given as text. Returns `false` if the text is not a number.
    fn number_as_text(&mut self, text: &str) -> bool {
        if let Ok(number) = text.parse::<u64>() {
            self.number(number);
        } else if let Ok(number) = text.parse::<i64>() {
            self.bytes.push(NEGATIVE);
            self.varint(number.unsigned_abs() - 1);
        } else if let Ok(number) = text.parse::<f64>() {
            self.bytes.push(FLOAT);
            self.bytes.extend(number.to_le_bytes());
        } else {
            return false;
        }
        true
    }

    fn number(&mut self, number: u64) {
        match usize::try_from(number)
            .ok()
            .and_then(|number| SMALL_NUMBER.byte(number))
        {
            Some(byte) => self.bytes.push(byte),
            None => {
                self.bytes.push(NUMBER);
                self.varint(number);
            }
        }
    }

    /// Writes seven bits per byte, the least significant first. All bytes but the last have their highest bit set.
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// Returns true if a string may have a binary form.
fn is_compact(text: &str) -> bool {
    match text.as_bytes() {
        [.., b'Z'] => matches!(text.len(), 20 | 27),
        [first, ..] if text.len() == 36 => first.is_ascii_hexdigit(),
        [first, ..] => text.len() <= 20 && first.is_ascii_digit() && decimal(text).is_some(),
        [] => false,
    }
}

/// Parses a UUID in its canonical form.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits = text
        .bytes()
        .enumerate()
        .filter(|(index, _)| !is_dash_of_uuid(*index));
    let has_dashes = text
        .bytes()
        .enumerate()
        .all(|(index, byte)| (byte == b'-') == is_dash_of_uuid(index));
    if text.len() != 36 || !has_dashes {
        return None;
    }
    let mut uuid = [0; 16];
    for (index, (_, digit)) in digits.enumerate() {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        let byte = uuid.get_mut(index / 2)?;
        *byte = *byte << 4 | digit;
    }
    Some(uuid)
}

pub(super) fn is_dash_of_uuid(index: usize) -> bool {
    matches!(index, 8 | 13 | 18 | 23)
}

/// Parses a number in its canonical form.
fn decimal(text: &str) -> Option<u64> {
    let is_usual = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| is_usual)
}

/// Parses a time in the format of Kubernetes. Returns its unit and the number of units since 1970.
fn time(text: &str) -> Option<(u8, u64)> {
    let (unit, since_1970) = match text.len() {
        20 => (SECONDS, text.parse::<Timestamp>().ok()?.as_second()),
        27 => (MICROSECONDS, text.parse::<Timestamp>().ok()?.as_microsecond()),
        _ => return None,
    };
    let time = u64::try_from(since_1970).ok()?;
    (time_text(unit, time)? == text).then_some((unit, time))
}

/// Returns the text of a time.
pub(super) fn time_text(unit: u8, time: u64) -> Option<String> {
    let time = i64::try_from(time).ok()?;
    match unit {
        SECONDS => Some(Timestamp::from_second(time).ok()?.to_string()),
        _ => Some(format!("{:.6}", Timestamp::from_microsecond(time).ok()?)),
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.bytes.push(if value { TRUE } else { FALSE });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        match u64::try_from(value) {
            Ok(value) => self.0.number(value),
            Err(_) => {
                self.0.bytes.push(NEGATIVE);
                self.0.varint(value.unsigned_abs() - 1);
            }
        }
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.number(value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.0.bytes.push(FLOAT);
        self.0.bytes.extend(value.to_le_bytes());
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.0.text(value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.bytes.push(NULL);
        Ok(())
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let (start, mut count) = (self.0.begin(), 0);
        while items.next_element_seed(self.0.seed())?.is_some() {
            count += 1;
        }
        self.0.end(start, SHORT_LIST.byte(count), LIST);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let (start, mut count) = (self.0.begin(), 0);
        let mut is_number = false;
        while members.next_key_seed(Name(self.0, &mut is_number))?.is_some() {
            if is_number {
                self.0.bytes.truncate(start);
                let text = members.next_value::<Cow<'de, str>>()?;
                let is_valid = self.0.number_as_text(&text);
                return if is_valid {
                    Ok(())
                } else {
                    Err(A::Error::custom("invalid number"))
                };
            }
            members.next_value_seed(self.0.seed())?;
            count += 1;
        }
        self.0.end_map(start, count);
        Ok(())
    }
}

/// Writes the name of a member, unless the map represents a number.
struct Name<'a, 'w>(&'a mut Writer<'w>, &'a mut bool);

impl<'de> DeserializeSeed<'de> for Name<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Name<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        *self.1 = name == NUMBER_AS_TEXT && *NUMBERS_ARE_MAPS;
        if !*self.1 {
            self.0.text(name);
        }
        Ok(())
    }
}
