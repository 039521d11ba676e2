//! The query of `/v1/top`.

use std::fmt::Write;

use weir_observe::{TopBy, TopOrder, TopWindow};

use super::{encode, fields};

/// The path.
pub const TOP: &str = "/v1/top";
/// How many rows there are by default, and at most.
pub const TOP_ROWS: usize = 20;
const ROWS_MAX: usize = 100;

/// What is asked for most: what is wanted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopWanted {
    /// What is listed.
    pub by: TopBy,
    /// What the list is ordered by.
    pub order: TopOrder,
    /// The span of time.
    pub window: TopWindow,
    /// The most rows.
    pub limit: usize,
    /// Only of this site.
    pub site: Option<String>,
}

impl Default for TopWanted {
    fn default() -> TopWanted {
        let (by, order, window) = (TopBy::Url, TopOrder::Asked, TopWindow::Minute);
        TopWanted { by, order, window, limit: TOP_ROWS, site: None }
    }
}

impl TopWanted {
    /// Path and query.
    pub fn write(&self) -> String {
        let (by, order, window) = (self.by.word(), self.order.word(), self.window.word());
        let mut text = format!("{TOP}?by={by}&order={order}&window={window}");
        // Writing to a string cannot fail.
        let _ = write!(text, "&limit={}", self.limit);
        if let Some(site) = &self.site {
            text += "&site=";
            encode(&mut text, site);
        }
        text
    }
}

/// What a query asks for.
///
/// # Errors
/// A sentence.
pub(crate) fn read_top(query: &str) -> Result<TopWanted, String> {
    let mut wanted = TopWanted::default();
    for field in fields(query) {
        let (name, value) = field?;
        match name {
            "by" => wanted.by = one_of(name, &value, TopBy::ALL, TopBy::word)?,
            "order" => wanted.order = one_of(name, &value, TopOrder::ALL, TopOrder::word)?,
            "window" => wanted.window = one_of(name, &value, TopWindow::ALL, TopWindow::word)?,
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=ROWS_MAX).contains(limit));
                wanted.limit = limit.ok_or_else(|| format!("limit is between 1 and {ROWS_MAX}"))?;
            }
            "site" => wanted.site = Some(value),
            _ => return Err(format!("{name} is not known; there are by, order, window, limit and site")),
        }
    }
    Ok(wanted)
}

/// The one of `all` with this word.
fn one_of<T: Copy, const N: usize>(
    name: &str,
    value: &str,
    all: [T; N],
    word: fn(T) -> &'static str,
) -> Result<T, String> {
    let found = all.into_iter().find(|one| word(*one) == value);
    found.ok_or_else(|| format!("{name} is one of {}", all.map(word).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for by in TopBy::ALL {
            for order in TopOrder::ALL {
                for window in TopWindow::ALL {
                    let site = Some("a&b=c é".to_owned());
                    let wanted = TopWanted { by, order, window, limit: 7, site };
                    let written = wanted.write();
                    let (path, query) = written.split_once('?').unwrap();
                    assert_eq!((path, read_top(query)), (TOP, Ok(wanted)));
                }
            }
        }
        assert_eq!(read_top(""), Ok(TopWanted::default()));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (query, expect) in [
            ("by=path", "by is one of url, client, site, origin"),
            ("order=hits", "order is one of asked, missed, bytes, not-stored"),
            ("window=day", "window is one of minute, hour"),
            ("limit=0", "limit is between 1 and 100"),
            ("limit=101", "limit is between 1 and 100"),
            ("sort=asked", "sort is not known; there are by, order, window, limit and site"),
        ] {
            assert_eq!(read_top(query).unwrap_err(), expect);
        }
    }
}
