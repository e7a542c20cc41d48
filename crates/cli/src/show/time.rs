//! Dates in the local time zone.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Half a year of 365.2425 days: older dates show the year instead of the time.
const RECENT_SECS: i64 = 31_556_952 / 2;

/// A date as `ls -l` shows it: with the time if it is of the last half year, else with the year.
pub fn short(secs: i64, now_secs: i64, zone: &TimeZone) -> String {
    let recent = secs <= now_secs && secs > now_secs.saturating_sub(RECENT_SECS);
    let format = if recent { "%b %e %H:%M" } else { "%b %e  %Y" };
    match zoned(secs, 0, zone) {
        Some(time) => time.strftime(format).to_string(),
        None => secs.to_string(),
    }
}

/// A date as `stat` shows it.
pub fn long(secs: i64, nanos: u32, zone: &TimeZone) -> String {
    match zoned(secs, nanos, zone) {
        Some(time) => time.strftime("%Y-%m-%d %H:%M:%S.%9f %z").to_string(),
        None => format!("{secs}.{nanos:09}"),
    }
}

/// `None` for a date beyond the year 9999.
fn zoned(secs: i64, nanos: u32, zone: &TimeZone) -> Option<Zoned> {
    let whole = Timestamp::from_second(secs).ok()?;
    let time = whole
        .checked_add(jiff::SignedDuration::from_nanos(i64::from(nanos)))
        .ok()?;
    Some(time.to_zoned(zone.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000; // 2023-11-14 22:13:20 UTC

    #[test]
    fn recent_dates_show_the_time_and_others_the_year() {
        let utc = TimeZone::UTC;
        assert_eq!(short(NOW, NOW, &utc), "Nov 14 22:13");
        assert_eq!(short(NOW - 86_400 * 6, NOW, &utc), "Nov  8 22:13");
        assert_eq!(short(NOW - RECENT_SECS, NOW, &utc), "May 16  2023");
        assert_eq!(short(NOW + 1, NOW, &utc), "Nov 14  2023");
        assert_eq!(short(0, NOW, &utc), "Jan  1  1970");
    }

    #[test]
    fn long_dates_have_nanoseconds_and_the_zone() {
        assert_eq!(
            long(-1, 5, &TimeZone::UTC),
            "1969-12-31 23:59:59.000000005 +0000"
        );
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(long(0, 0, &east), "1970-01-01 02:00:00.000000000 +0200");
    }

    #[test]
    fn dates_beyond_the_calendar_are_numbers() {
        assert_eq!(short(i64::MAX, NOW, &TimeZone::UTC), i64::MAX.to_string());
        assert_eq!(
            long(i64::MIN, 1, &TimeZone::UTC),
            format!("{}.000000001", i64::MIN)
        );
    }
}
