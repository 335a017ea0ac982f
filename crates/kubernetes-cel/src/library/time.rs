//! Functions of times and durations.

use apimachinery::time::{Timestamp, zone};

use super::Called;
use crate::value::Value;

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Called<'a> {
    match args {
        [Value::Duration(nanos)] => of_duration(function, *nanos).map(|part| Ok(Value::Int(part))),
        [Value::Timestamp(time)] => of_time(function, time.time).map(|part| Ok(Value::Int(part))),
        [Value::Timestamp(time), Value::String(zone)] => {
            let Timestamp { seconds, nanos } = time.time;
            let shifted = offset(zone, seconds).map(|offset| Timestamp {
                seconds: seconds + offset,
                nanos,
            });
            match shifted {
                Some(time) => of_time(function, time).map(|part| Ok(Value::Int(part))),
                None => Some(Err(format!("unknown time zone {zone}"))),
            }
        }
        _ => None,
    }
}

/// Returns the UTC offset of a time zone at a time, in seconds. The zone is a fixed offset such as `-02:00`, or a name
/// in the tz database.
fn offset(zone: &str, seconds: i64) -> Option<i64> {
    if zone.contains(':') {
        return fixed_offset(zone);
    }
    if zone.is_empty() {
        return Some(0);
    }
    let zone = zone::named(zone)?;
    let time = jiff::Timestamp::from_second(seconds).ok()?;
    Some(zone.to_offset(time).seconds().into())
}

/// Parses hours and minutes as leniently as the reference implementation.
fn fixed_offset(zone: &str) -> Option<i64> {
    let (hours, minutes) = zone.split_once(':')?;
    let hours: i32 = hours.parse().ok()?;
    let minutes: i32 = minutes.parse().ok()?;
    let minutes = if zone.starts_with('-') { -minutes } else { minutes };
    Some((i64::from(hours) * 60 + i64::from(minutes)) * 60)
}

fn of_duration(function: &str, nanos: i64) -> Option<i64> {
    Some(match function {
        "getHours" => nanos / 3_600_000_000_000,
        "getMinutes" => nanos / 60_000_000_000,
        "getSeconds" => nanos / 1_000_000_000,
        "getMilliseconds" => nanos / 1_000_000,
        _ => return None,
    })
}

fn of_time(function: &str, time: Timestamp) -> Option<i64> {
    let second = time.seconds.rem_euclid(86_400);
    Some(match function {
        "getFullYear" => time.date().year,
        "getMonth" => i64::from(time.date().month) - 1,
        "getDayOfYear" => time.day_of_year(),
        "getDayOfMonth" => i64::from(time.date().day) - 1,
        "getDate" => i64::from(time.date().day),
        "getDayOfWeek" => time.day_of_week(),
        "getHours" => second / 3600,
        "getMinutes" => second / 60 % 60,
        "getSeconds" => second % 60,
        "getMilliseconds" => i64::from(time.nanos / 1_000_000),
        _ => return None,
    })
}
