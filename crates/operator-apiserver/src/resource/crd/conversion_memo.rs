//! Caches the conversions that a field manager needs during one write: [`ConversionMemo`].
//!
//! A field manager compares objects in every version that a manager has used. It does no I/O: a conversion that needs
//! the webhook is recorded as missing and fails. The caller then makes the conversion, and runs the field manager
//! again until nothing is missing.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::Value;
use structured_merge::ConvertError;

use super::conversion::{self, Converter, Key};
use crate::resource::Definition;

/// The conversions of one write, by the object and the target version.
#[derive(Debug, Default)]
pub(crate) struct ConversionMemo(Mutex<Memo>);

#[derive(Debug, Default)]
struct Memo {
    known: HashMap<Key, Result<Value, String>>,
    missing: Vec<(Key, Value)>,
}

impl ConversionMemo {
    /// Returns an object in another version. Fails if the conversion has not been made yet; [`Self::fill`] makes it.
    pub(crate) fn find(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let key = conversion::key(object, api_version);
        let mut memo = self.0.lock();
        if let Some(converted) = memo.known.get(&key) {
            return converted.clone().map_err(ConvertError::Failed);
        }
        memo.missing.push((key, object.clone()));
        Err(ConvertError::Failed("not converted yet".to_owned()))
    }

    /// Makes the missing conversions. Returns true if there were any; the field manager must then run again.
    pub(crate) async fn fill(&self, converter: &Converter, definition: &Definition) -> bool {
        let missing = std::mem::take(&mut self.0.lock().missing);
        let was_missing = !missing.is_empty();
        for (key, object) in missing {
            let converted = conversion::convert(converter, definition, &object, &key.1).await;
            let converted = converted.map_err(|status| status.message().to_owned());
            self.0.lock().known.insert(key, converted);
        }
        was_missing
    }

    /// Drops all conversions after the live object changed.
    pub(crate) fn clear(&self) {
        *self.0.lock() = Memo::default();
    }
}
