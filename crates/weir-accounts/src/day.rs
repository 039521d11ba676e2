//! Days and months, of UTC: an account's day begins and ends at midnight UTC, wherever Weir stands.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// A month of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    year: i16,
    month: i8,
}

/// A day of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day {
    month: Month,
    day: i8,
}

/// A day, or a month whose days are no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Period {
    /// A whole month.
    Month(Month),
    /// A day.
    Day(Day),
}

impl Day {
    /// The day in which a moment lies.
    pub fn of(wall: SystemTime) -> Day {
        // A clock beyond all bounds is read as the epoch.
        let stamp = Timestamp::try_from(wall).unwrap_or(Timestamp::UNIX_EPOCH);
        Day::of_date(stamp.to_zoned(TimeZone::UTC).date())
    }

    fn of_date(date: Date) -> Day {
        Day { month: Month { year: date.year(), month: date.month() }, day: date.day() }
    }

    /// Its month.
    pub fn month(self) -> Month {
        self.month
    }

    /// Its number in the month, from 1.
    pub(crate) fn number(self) -> u8 {
        self.day.unsigned_abs()
    }

    fn date(self) -> Option<Date> {
        Date::new(self.month.year, self.month.month, self.day).ok()
    }

    /// How long it is until the next day begins.
    pub(crate) fn left(self, wall: SystemTime) -> Option<Duration> {
        let next = self.date()?.checked_add(1.day()).ok()?;
        let begins = next.to_zoned(TimeZone::UTC).ok()?.timestamp();
        SystemTime::from(begins).duration_since(wall).ok()
    }
}

impl Month {
    /// A day of it; `None` where it has none of that number.
    pub(crate) fn day(self, number: u8) -> Option<Day> {
        let day = i8::try_from(number).ok()?;
        Date::new(self.year, self.month, day).ok().map(Day::of_date)
    }
}

impl Period {
    /// Its month.
    pub fn month(self) -> Month {
        match self {
            Period::Month(month) => month,
            Period::Day(day) => day.month,
        }
    }
}

/// Where a question begins: a day (`2026-11-22`), a month (`2026-11`), or a time ago (`90m`, `36h`, `30d`,
/// `4w`). The answer begins with the day in which that lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// From this day on.
    Day(Day),
    /// From the first day of this month on.
    Month(Month),
    /// From this long ago on.
    Ago(Duration),
}

impl Since {
    /// The first day of the answer, with `wall` as the current time.
    pub fn first(self, wall: SystemTime) -> Day {
        match self {
            Since::Day(day) => day,
            Since::Month(month) => Day { month, day: 1 },
            Since::Ago(ago) => Day::of(wall.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH)),
        }
    }
}

/// The text is neither a day, a month nor a span of time.
const NO_TIME: &str = "write a day (2026-11-22), a month (2026-11) or how long ago (36h, 30d, 4w)";

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Since, String> {
        if let Ok(day) = text.parse() {
            return Ok(Since::Day(day));
        }
        if let Ok(month) = text.parse() {
            return Ok(Since::Month(month));
        }
        let unit_s: u64 = match text.as_bytes().last() {
            Some(b's') => 1,
            Some(b'm') => 60,
            Some(b'h') => 3600,
            Some(b'd') => 86_400,
            Some(b'w') => 7 * 86_400,
            _ => return Err(NO_TIME.to_owned()),
        };
        let count = digits(&text[..text.len() - 1]).ok_or(NO_TIME)?;
        Ok(Since::Ago(Duration::from_secs(u64::from(count).saturating_mul(unit_s))))
    }
}

fn digits(text: &str) -> Option<u32> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok())?
}

impl FromStr for Month {
    type Err = String;

    fn from_str(text: &str) -> Result<Month, String> {
        let parts = text.split_once('-').filter(|(year, month)| year.len() == 4 && month.len() == 2);
        let number = |text| digits(text).and_then(|number| i16::try_from(number).ok());
        let date = parts
            .and_then(|(year, month)| Date::new(number(year)?, i8::try_from(number(month)?).ok()?, 1).ok());
        date.map(|date| Day::of_date(date).month).ok_or_else(|| NO_TIME.to_owned())
    }
}

impl FromStr for Day {
    type Err = String;

    fn from_str(text: &str) -> Result<Day, String> {
        let (month, day) = text.rsplit_once('-').filter(|(_, day)| day.len() == 2).ok_or(NO_TIME)?;
        let number = digits(day).and_then(|number| u8::try_from(number).ok()).ok_or(NO_TIME)?;
        month.parse::<Month>()?.day(number).ok_or_else(|| NO_TIME.to_owned())
    }
}

impl fmt::Display for Month {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:04}-{:02}", self.year, self.month)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{:02}", self.month, self.day)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Period::Month(month) => month.fmt(out),
            Period::Day(day) => day.fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(s)
    }

    #[test]
    fn a_day_ends_at_midnight_of_utc() {
        // 2024-02-29 was the day 19,782 since the epoch.
        let midnight = 19_782 * 86_400;
        assert_eq!(Day::of(at(midnight)).to_string(), "2024-02-29");
        assert_eq!(Day::of(at(midnight - 1)).to_string(), "2024-02-28");
        assert_eq!(Day::of(at(midnight + 86_399)).to_string(), "2024-02-29");
        assert_eq!(Day::of(at(midnight + 86_400)).to_string(), "2024-03-01");
        let left = Day::of(at(midnight)).left(at(midnight + 86_000));
        assert_eq!(left, Some(Duration::from_secs(400)));
    }

    #[test]
    fn what_is_asked_for_begins_with_a_day() {
        let now = at(19_782 * 86_400 + 3600);
        let check = |text: &str, first: &str| {
            assert_eq!(text.parse::<Since>().unwrap().first(now).to_string(), first, "{text}");
        };
        check("2023-07-04", "2023-07-04");
        check("2023-07", "2023-07-01");
        check("30m", "2024-02-29");
        check("2h", "2024-02-28");
        check("1d", "2024-02-28");
        check("4w", "2024-02-01");
        check("999999999w", "1970-01-01");
        for text in
            ["", "d", "7", "-1d", "+1d", "2023-7-4", "2023-02-29", "2023-13", "2023-00", "é", "1é", "1.5d"]
        {
            assert!(text.parse::<Since>().is_err(), "{text}");
        }
    }
}
