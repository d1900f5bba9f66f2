//! Times of day as the admin service writes them: RFC 3339, in UTC.

/// Seconds of a day.
const DAY: u64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const ERA: u64 = 146_097;
/// Days from the first of March of the year 0 to 1970.
const TO_1970: u64 = 719_468;

/// Writes seconds since 1970, as "2026-11-30T14:05:00Z".
pub fn show_time(seconds: u64) -> String {
    // A year of this count begins in March, so that the odd day of a leap year is its last.
    let days = seconds / DAY + TO_1970;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next;
    let (hour, minute, second) = (seconds % DAY / 3600, seconds % 3600 / 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Writes milliseconds since 1970, as "2026-11-30T14:05:00.123Z".
pub fn show_time_millis(millis: u64) -> String {
    let seconds = show_time(millis / 1000);
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), millis % 1000)
}

/// Reads what [`show_time`] writes, for years from 1970 to 9999.
pub fn parse_time(text: &str) -> Option<u64> {
    let octets = text.as_bytes();
    let shape = b"dddd-dd-ddTdd:dd:ddZ";
    let fits = |(octet, shape): (&u8, &u8)| match shape {
        b'd' => octet.is_ascii_digit(),
        other => octet == other,
    };
    if octets.len() != shape.len() || !octets.iter().zip(shape).all(fits) {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if year < 1970 || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let (march_year, march_month) =
        if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, of_era) = (march_year / 400, march_year % 400);
    let days = 365 * of_era + of_era / 4 - of_era / 100 + (153 * march_month + 2) / 5 + day - 1;
    let days = (era * ERA + days).checked_sub(TO_1970)?;
    let seconds = days * DAY + hour * 3600 + minute * 60 + second;
    // The 31st of a month of 30 days, or the 25th hour, would be written otherwise.
    (show_time(seconds) == text).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(show_time(seconds), text);
            assert_eq!(parse_time(text), Some(seconds));
        }
        assert_eq!(show_time_millis(951_782_399_007), "2000-02-28T23:59:59.007Z");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in [
            "",
            "2026-11-30",
            "2026-11-30T14:05:00",
            "2026-11-30 14:05:00Z",
            "2026-11-31T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-30T14:05:00+00:00",
            "+026-11-30T14:05:00Z",
        ] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(seconds in 0u64..253_402_300_800) {
            prop_assert_eq!(parse_time(&show_time(seconds)), Some(seconds));
        }
    }
}
