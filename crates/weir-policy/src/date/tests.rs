//! The forms of a date, as senders write them and as they do not.

use super::{date_of, http_date};
use http::HeaderValue;
use proptest::prelude::*;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Sun, 06 Nov 1994 08:49:37 GMT.
const THEN_S: u64 = 784_111_777;
/// 2026-01-01 00:00:00 GMT.
const NEAR_S: u64 = 1_767_225_600;

fn read_near(text: &str, near_s: u64) -> Option<u64> {
    let near = SystemTime::UNIX_EPOCH + Duration::from_secs(near_s);
    let date = date_of(&HeaderValue::from_str(text).unwrap(), near)?;
    Some(date.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs())
}

fn read(text: &str) -> Option<u64> {
    read_near(text, NEAR_S)
}

#[test]
fn all_three_forms_are_read_whatever_their_case() {
    for form in
        ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
    {
        for text in [form.to_owned(), form.to_uppercase(), form.to_lowercase(), form.replace("GMT", "utc")] {
            assert_eq!(read(&text), Some(THEN_S), "{text}");
        }
        assert_eq!(read(&format!(" {form}\t")), Some(THEN_S), "{form}");
    }
}

#[test]
fn another_zone_or_another_form_is_no_date() {
    for text in [
        "",
        "0",
        "-1",
        "Sun",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 EST",
        "Sun, 06 Nov 1994 08:49:37 AEST",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sun 06 Nov 1994 08:49:37 GMT",
        "Son, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:60 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sunday, 06 Nov 94 08:49:37 GMT",
        "Sundae, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
    let value = HeaderValue::from_bytes(b"Sun, 06 Nov 1994 08:49:37 \xffMT").unwrap();
    assert_eq!(date_of(&value, SystemTime::UNIX_EPOCH), None);
}

#[test]
fn a_day_of_the_wrong_name_is_the_day_of_its_date() {
    for text in
        ["Mon, 06 Nov 1994 08:49:37 GMT", "Monday, 06-Nov-94 08:49:37 GMT", "Mon Nov  6 08:49:37 1994"]
    {
        assert_eq!(read(text), Some(THEN_S), "{text}");
    }
}

#[test]
fn a_leap_second_is_the_first_of_the_next_day() {
    assert_eq!(read("Sat, 31 Dec 2016 23:59:60 GMT"), read("Sun, 01 Jan 2017 00:00:00 GMT"));
    assert_eq!(read("saturday, 31-dec-16 23:59:60 gmt"), read("Sun, 01 Jan 2017 00:00:00 GMT"));
}

#[test]
fn a_year_of_two_digits_is_at_most_fifty_years_ahead() {
    let thursday_2070 = read("Thu, 02 Jan 2070 00:00:00 GMT");
    assert!(thursday_2070.is_some());
    assert_eq!(read("Thursday, 02-Jan-70 00:00:00 GMT"), thursday_2070);
    // The day has its name in 1970 alone.
    assert_eq!(read("Thursday, 01-Jan-70 00:00:00 GMT"), Some(0));
    // 2077 is more than fifty years ahead, and would be a Friday, too.
    let friday = "Friday, 01-Jan-77 00:00:00 GMT";
    assert_eq!(read(friday), read("Sat, 01 Jan 1977 00:00:00 GMT"));
    assert_eq!(read_near(friday, NEAR_S + 2 * 31_556_952), read("Fri, 01 Jan 2077 00:00:00 GMT"));
    assert_eq!(read("Thursday, 18-Aug-50 02:01:18 GMT"), read("Thu, 18 Aug 2050 02:01:18 GMT"));
}

/// A form of the moment, as the grammar has it.
fn written(seconds: u64, form: u8) -> String {
    let fixed = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    let (day, date, month, year, time) =
        (&fixed[..3], &fixed[5..7], &fixed[8..11], &fixed[12..16], &fixed[17..25]);
    let name = super::DAYS.iter().find(|name| name.starts_with(day)).unwrap();
    match form {
        0 => fixed,
        1 => format!("{name}, {date}-{month}-{} {time} GMT", &year[2..]),
        _ => format!("{day} {month} {:>2} {time} {year}", date.trim_start_matches('0')),
    }
}

proptest! {
    #[test]
    fn what_is_written_in_any_form_and_case_is_read_back(
        // Fifty years around.
        seconds in NEAR_S - 25 * 31_556_952..NEAR_S + 25 * 31_556_952,
        form in 0_u8..3,
        upper in proptest::collection::vec(any::<bool>(), 35),
    ) {
        let text = written(seconds, form);
        let cased: String = text
            .chars()
            .zip(&upper)
            .map(|(letter, upper)| match upper {
                true => letter.to_ascii_uppercase(),
                false => letter.to_ascii_lowercase(),
            })
            .collect();
        prop_assert_eq!(read(&cased), Some(seconds), "{}", cased);
    }

    #[test]
    fn nothing_panics(text in "[ -~]{0,40}", near_s in any::<u32>()) {
        read_near(&text, u64::from(near_s));
    }

    #[test]
    fn nothing_near_a_date_panics(
        seconds in 0_u64..4_000_000_000,
        form in 0_u8..3,
        at in 0_usize..35,
        byte in b' '..b'~',
    ) {
        let mut text = written(seconds, form).into_bytes();
        if let Some(place) = text.get_mut(at) {
            *place = byte;
        }
        read(std::str::from_utf8(&text).unwrap());
    }
}

proptest! {
    /// Any time is printed, or has no date; what is printed is read as the same second.
    #[test]
    fn every_time_has_a_date_or_none(seconds in any::<i64>(), is_near in any::<bool>()) {
        let seconds = if is_near { seconds % 300_000_000_000 } else { seconds };
        let length = Duration::from_secs(seconds.unsigned_abs());
        let at = match seconds < 0 {
            true => UNIX_EPOCH.checked_sub(length),
            false => UNIX_EPOCH.checked_add(length),
        };
        let Some(at) = at else { return Ok(()) };
        let printed = http_date(at);
        prop_assert_eq!(printed.is_some(), (0..253_402_300_800).contains(&seconds));
        if let Some(printed) = printed {
            prop_assert_eq!(httpdate::parse_http_date(&printed).unwrap(), at);
        }
    }
}
