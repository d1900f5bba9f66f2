//! Durations as the configuration writes them: a whole number and a unit.

use std::time::Duration;

/// Reads a whole number with one of the units ms, s, m, h, d.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(milliseconds).map(Duration::from_millis)
}

/// Writes a duration with the largest unit that keeps it whole.
pub fn show_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let fits =
        |&&(size, _): &&(u128, &str)| milliseconds >= size && milliseconds.is_multiple_of(size);
    match units.iter().find(fits) {
        Some((size, unit)) => format!("{}{unit}", milliseconds / size),
        None => "0s".to_owned(),
    }
}

/// Writes how long something has been so, with the one or two largest units: "3m", "2h 5m".
pub fn show_age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit} {small}{small_unit}"),
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m"),
        3600..86_400 => two(hours, "h", minutes % 60, "m"),
        _ => two(days, "d", hours % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("10m"), Some(Duration::from_secs(600)));
        assert_eq!(parse_duration("500ms"), Some(Duration::from_millis(500)));
        for wrong in ["10", "s", "1.5s", "-1s", "10 s", "", "99999999999999999999s"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
        assert_eq!(show_duration(Duration::from_secs(90)), "90s");
        assert_eq!(show_duration(Duration::from_secs(3600)), "1h");
    }

    #[test]
    fn ages_are_short() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (90, "1m"), (3600, "1h"), (7500, "2h 5m"), (90_000, "1d 1h")]
        {
            assert_eq!(show_age(Duration::from_secs(seconds)), text);
        }
    }
}
