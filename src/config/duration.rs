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
}
