//! Parts of times and durations.

use super::Called;
use crate::cel::value::Value;
use crate::go::time::{Timestamp, zone_offset};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Called<'a> {
    match args {
        [Value::Duration(nanos)] => of_duration(function, *nanos).map(|part| Ok(Value::Int(part))),
        [Value::Timestamp(time)] => of_time(function, *time).map(|part| Ok(Value::Int(part))),
        [Value::Timestamp(time), Value::String(zone)] => {
            let shifted = offset(zone).map(|offset| Timestamp {
                seconds: time.seconds + offset,
                ..*time
            });
            match shifted {
                Some(time) => of_time(function, time).map(|part| Ok(Value::Int(part))),
                None => Some(Err(format!("unknown time zone {zone}"))),
            }
        }
        _ => None,
    }
}

/// UTC and fixed offsets: there is no database of time zones here.
fn offset(zone: &str) -> Option<i64> {
    match zone {
        "" | "UTC" | "GMT" | "Etc/UTC" | "Z" => Some(0),
        _ if zone.starts_with(['+', '-']) => zone_offset(zone),
        _ => zone_offset(&format!("+{zone}")),
    }
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
