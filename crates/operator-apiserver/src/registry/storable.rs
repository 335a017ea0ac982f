//! Which objects can be stored: those that etcd takes, and that can be read again.

use apimachinery::json::DEPTH_MAX;
use apimachinery::object;
use serde_json::Value;

use super::Write;
use crate::measure::Measure;
use crate::status::{self, Status};

/// The longest request that etcd takes (`--max-request-bytes`), without what its log adds to it.
const REQUEST_BYTES_MAX: usize = 1_572_864 - 14;
/// The longest message that the real server's etcd client sends.
const MESSAGE_BYTES_MAX: usize = 2 << 20;
/// The bytes of a request to etcd without the key, which it contains twice, and the object.
const ENVELOPE_BYTES: usize = 25;
/// The longest JSON text of an object of a built-in kind.
const BUILTIN_JSON_MAX: usize = 8 << 20;

/// Refuses an object that is too large or nested too deeply to be stored. Like the real server, it gives up the
/// managed fields of such an object first, unless the write is an apply.
pub(super) fn check(write: &Write, key: &str, stored: &mut Value) -> Result<(), Status> {
    let Err(refused) = fits(write, key, stored) else {
        return Ok(());
    };
    if write.tracked || object::meta(stored, "managedFields").is_none() {
        return Err(refused);
    }
    object::set_meta(stored, "managedFields", None);
    fits(write, key, stored)
}

fn fits(write: &Write, key: &str, stored: &Value) -> Result<(), Status> {
    let measure = Measure::of(stored);
    if measure.is_too_deep() {
        return Err(status::bad_request(format!(
            "the object is nested deeper than {DEPTH_MAX} levels"
        )));
    }
    let definition = &write.definition;
    let version = match object::resource_version(stored) {
        "" => 0,
        version => "\"resourceVersion\":\"\",".len() + version.len(),
    };
    // The real server stores custom resources as JSON, and built-in kinds in a form without field names and escapes.
    let length = if definition.is_custom() {
        (measure.json + "\n".len()).saturating_sub(version)
    } else if measure.json > BUILTIN_JSON_MAX {
        measure.json
    } else {
        measure.text + 2 * measure.nodes
    };
    let key_length = "/registry//".len() + definition.storage_folder().len() + key.len();
    let message = length + 2 * key_length + ENVELOPE_BYTES;
    if message > MESSAGE_BYTES_MAX {
        return Err(status::plain(format!(
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({message} vs. {MESSAGE_BYTES_MAX})"
        )));
    }
    if message > REQUEST_BYTES_MAX {
        return Err(status::plain("etcdserver: request is too large".to_owned()));
    }
    Ok(())
}
