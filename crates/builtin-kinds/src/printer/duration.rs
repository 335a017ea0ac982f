//! Durations as kubectl prints them: at most two units, and the smaller unit only for short durations.

/// Formats a number of seconds: `45s`, `3m20s`, `5h`, `2d4h`, `1y30d`.
pub(crate) fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

/// Formats two units, or one if the smaller number is zero.
fn two(great: i64, great_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{great}{great_unit}")
    } else {
        format!("{great}{great_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::human_duration;

    #[test]
    fn durations_lose_their_finer_unit_as_they_grow() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (9 * MINUTE + 59, "9m59s"),
            (10 * MINUTE + 5, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 59 * MINUTE, "7h59m"),
            (8 * HOUR + 5 * MINUTE, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (7 * DAY + 23 * HOUR, "7d23h"),
            (8 * DAY + HOUR, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (731 * DAY, "2y1d"),
            (8 * 365 * DAY, "8y"),
        ] {
            assert_eq!(human_duration(seconds), expected, "{seconds}");
        }
    }
}
