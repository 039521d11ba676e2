//! Shares: `50%`. Must not accept a number without its sign.

use super::text_value;
use std::{fmt, str::FromStr};

/// A share, 1 to 100 percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(pub u8);

text_value!(Percent, "weir-percent", "a share, `1%` to `100%`");

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Percent, String> {
        let text = text.trim();
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let Some(number) = text.strip_suffix('%').map(str::trim_end).filter(|number| digits(number)) else {
            return Err(match digits(text) {
                true => format!("a share without its sign: did you mean `{text}%`?"),
                false => format!("`{text}` is not a share: write `1%` to `100%`"),
            });
        };
        let percent = number.parse().ok().filter(|percent| (1..=100).contains(percent));
        percent.map(Percent).ok_or_else(|| format!("`{text}` is out of bounds: use `1%` to `100%`"))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}%", self.0)
    }
}
