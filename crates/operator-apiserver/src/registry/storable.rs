//! Size limits of stored objects: the limits of etcd and of the parsers.

use apimachinery::json::DEPTH_MAX;
use apimachinery::object;
use serde_json::Value;

use super::Write;
use crate::measure::Measure;
use crate::status::{self, Status};

/// The maximum length of a request to etcd (`--max-request-bytes`), without the overhead of etcd's log.
const REQUEST_BYTES_MAX: usize = 1_572_864 - 14;
/// The maximum length of a message of the API server's etcd client.
const MESSAGE_BYTES_MAX: usize = 2 << 20;
/// The size of a request to etcd without the object and the key, which it contains twice.
const ENVELOPE_BYTES: usize = 25;
/// The maximum length of the JSON text of an object of a built-in kind.
const BUILTIN_JSON_MAX: usize = 8 << 20;

/// Rejects an object that is too large or nested too deeply. Like the API server, it first drops the managed fields of
/// such an object, unless the write is an apply.
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
    // The API server stores custom resources as JSON, and built-in kinds in a format without field names and escapes.
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
