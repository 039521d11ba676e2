//! Conditions on what is listed, from words: `404,5xx`, `1MiB..`, `image/*`. Pure.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use globset::GlobBuilder;
use regex::bytes::RegexBuilder;
use weir_config::value::{self, StatusRanges};
use weir_policy::MEDIA_TYPE_BYTES_MAX;
use weir_store::{Extent, Freshness, MediaRange, Order, PlaceOf, UrlMatch, Wanted};

use super::ListOrder;

/// The longest pattern in bytes.
const PATTERN_BYTES_MAX: usize = 1024;
/// The memory that a compiled pattern takes at most, in bytes; and as much again while it is used.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// The most media types of one search.
const MEDIA_TYPES_MAX: usize = 64;

/// The conditions of an order.
///
/// # Errors
/// A sentence that says what to write instead.
pub(super) fn wanted(order: &ListOrder) -> Result<Wanted, String> {
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    let named = |name: &'static str| move |error: String| format!("{name}: {error}");
    Ok(Wanted {
        statuses: read(&order.status, statuses).map_err(named("status"))?.unwrap_or_default(),
        media_types: read(&order.media_type, media_types).map_err(named("type"))?.unwrap_or_default(),
        held_bytes: read(&order.size, sizes).map_err(named("size"))?,
        age: read(&order.age, ages).map_err(named("age"))?,
        freshness: read(&order.freshness, freshness).map_err(named("freshness"))?,
        extent: read(&order.held, extent)?,
        place: order.place.as_ref().map(|_| match of(&order.place).as_str() {
            "memory" => PlaceOf::Memory,
            volume => PlaceOf::Volume(volume.to_owned()),
        }),
        url: read(&order.matching, matching).map_err(named("match"))?,
    })
}

/// What comes first, if that is said.
///
/// # Errors
/// A sentence.
pub(super) fn sorted(order: &ListOrder) -> Result<Option<Order>, String> {
    read(&order.sort, |text| match text {
        "url" => Ok(Order::Url),
        "size" => Ok(Order::Size),
        "age" => Ok(Order::Age),
        "expires" => Ok(Order::Expires),
        _ => Err(format!("sort is url, size, age or expires, not `{text}`")),
    })
}

fn read<T>(text: &Option<String>, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    text.as_deref().map(|text| read(text.trim())).transpose()
}

fn statuses(text: &str) -> Result<Vec<RangeInclusive<u16>>, String> {
    let spelled = text.split(',').map(|member| match member.trim().strip_suffix("xx") {
        Some(class) if class.len() == 1 => format!("{class}00-{class}99"),
        _ => member.to_owned(),
    });
    Ok(StatusRanges::from_str(&spelled.collect::<Vec<_>>().join(","))?.0)
}

fn media_types(text: &str) -> Result<Vec<MediaRange>, String> {
    let range = |member: &str| {
        let member = member.trim().to_ascii_lowercase();
        let (of, subtype) = member.split_once('/').unwrap_or((&member, ""));
        let is_one = !of.is_empty() && !subtype.is_empty() && !of.contains('*');
        if !is_one || member.len() > MEDIA_TYPE_BYTES_MAX {
            return Err(format!(
                "`{member}` is no media type: write `text/html`, or `image/*` for all images"
            ));
        }
        Ok(if subtype == "*" { MediaRange::Of(format!("{of}/")) } else { MediaRange::One(member) })
    };
    let all: Vec<&str> = text.split(',').collect();
    if all.len() > MEDIA_TYPES_MAX {
        return Err(format!("name at most {MEDIA_TYPES_MAX} media types at once"));
    }
    all.into_iter().map(range).collect()
}

/// A range in words: `A..B`, `A..`, `..B`; both ends belong to it.
fn range<T: Copy + PartialOrd>(
    text: &str,
    (least, most): (T, T),
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<RangeInclusive<T>, String> {
    let Some((begin, end)) = text.split_once("..") else {
        read(text)?;
        return Err(format!(
            "`{text}` is no range: write `{text}..` for at least that, `..{text}` for at most"
        ));
    };
    let part = |part: &str, missing: T| if part.is_empty() { Ok(missing) } else { read(part) };
    let (begin, end) = (part(begin.trim(), least)?, part(end.trim(), most)?);
    if begin > end {
        return Err(format!("`{text}` takes nothing: the smaller one comes first"));
    }
    Ok(begin..=end)
}

fn sizes(text: &str) -> Result<RangeInclusive<u64>, String> {
    range(text, (0, u64::MAX), |size| Ok(value::Size::from_str(size)?.0))
}

fn ages(text: &str) -> Result<RangeInclusive<Duration>, String> {
    range(text, (Duration::ZERO, Duration::MAX), time)
}

fn time(text: &str) -> Result<Duration, String> {
    Ok(value::Duration::from_str(text)?.0)
}

fn freshness(text: &str) -> Result<Freshness, String> {
    match text {
        "fresh" => Ok(Freshness::Fresh),
        "stale" => Ok(Freshness::Stale),
        _ => time(text).map(Freshness::ExpiresWithin).map_err(|error| {
            format!("write `fresh`, `stale`, or a time for what expires within it, such as `10m` ({error})")
        }),
    }
}

fn extent(text: &str) -> Result<Extent, String> {
    match text {
        "part" => Ok(Extent::Part),
        "whole" => Ok(Extent::Whole),
        _ => Err(format!("held is part or whole, not `{text}`")),
    }
}

/// A glob for the whole URL, or with `~` before it a regular expression for some of it. The engine takes time
/// in proportion to the URL, whatever the pattern.
fn matching(text: &str) -> Result<UrlMatch, String> {
    if text.is_empty() || text.len() > PATTERN_BYTES_MAX {
        return Err(format!("a pattern has 1 to {PATTERN_BYTES_MAX} bytes"));
    }
    let pattern = match text.strip_prefix('~') {
        Some(regex) => regex.to_owned(),
        None => {
            let glob = GlobBuilder::new(text).literal_separator(false).backslash_escape(true).build();
            glob.map_err(|error| format!("`{text}` is no glob: {}", error.kind()))?.regex().to_owned()
        }
    };
    let built = RegexBuilder::new(&pattern)
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .build();
    let regex = built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            format!("`{text}` is too large once compiled: write a shorter one")
        }
        error => format!("`{text}` is no regular expression: {error}"),
    })?;
    Ok(UrlMatch(Arc::new(move |url| regex.is_match(url))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(pattern: &str, url: &[u8]) -> bool {
        (matching(pattern).unwrap().0)(url)
    }

    #[test]
    fn globs_are_for_the_whole_url_and_regular_expressions_for_some_of_it() {
        let url = b"http://a.test/img/b/c.png?x=1";
        for pattern in [
            "*",
            "http://a.test/*",
            "*.png*",
            "*/img/**",
            "http://?.test/*",
            "*/{img,css}/*",
            "~png",
            "~^http://[a-c]\\.",
        ] {
            assert!(takes(pattern, url), "{pattern}");
        }
        for pattern in ["/img/*", "*.png", "http://a.test/", "~png$", "~^/img", "*/[!i]mg/*"] {
            assert!(!takes(pattern, url), "{pattern}");
        }
        assert!(takes("*/a?b", b"http://a.test/a\xffb") && takes("~a.b", b"a\xffb"));
        // It takes no longer for that: the engine does not go back.
        assert!(!takes("~^(a+)+$", &[&[b'a'; 10_000][..], b"!"].concat()));
    }

    #[test]
    fn words_become_ranges() {
        assert_eq!(statuses("404,5xx, 200-299"), Ok(vec![404..=404, 500..=599, 200..=299]));
        assert_eq!(sizes("1KiB..2MiB"), Ok(1024..=2 << 20));
        assert_eq!((sizes("1KiB.."), sizes("..0")), (Ok(1024..=u64::MAX), Ok(0..=0)));
        assert_eq!(ages("1h..").map(|ages| *ages.start()), Ok(Duration::from_secs(3600)));
        assert_eq!(freshness("10m"), Ok(Freshness::ExpiresWithin(Duration::from_secs(600))));
        let types = media_types("Text/HTML,image/*");
        assert_eq!(types, Ok(vec![MediaRange::One("text/html".into()), MediaRange::Of("image/".into())]));
    }

    #[test]
    fn what_means_nothing_is_refused_and_says_what_to_write() {
        let order = |field: fn(&mut ListOrder) -> &mut Option<String>, text: &str| {
            let mut order = ListOrder::default();
            *field(&mut order) = Some(text.to_owned());
            wanted(&order).err().or_else(|| sorted(&order).err()).unwrap_or_default()
        };
        let long = "a".repeat(PATTERN_BYTES_MAX + 1);
        for (said, expect) in [
            (order(|order| &mut order.size, "1MiB"), "write `1MiB..`"),
            (order(|order| &mut order.size, "9..1"), "did you mean `9B`"),
            (order(|order| &mut order.size, "2KiB..1KiB"), "takes nothing"),
            (order(|order| &mut order.age, "old"), "age: "),
            (order(|order| &mut order.status, "99"), "status: "),
            (order(|order| &mut order.media_type, "image"), "`image/*`"),
            (order(|order| &mut order.media_type, "*/*"), "no media type"),
            (order(|order| &mut order.freshness, "new"), "`stale`"),
            (order(|order| &mut order.held, "half"), "part or whole"),
            (order(|order| &mut order.sort, "name"), "url, size, age or expires"),
            (order(|order| &mut order.matching, "~("), "no regular expression"),
            (order(|order| &mut order.matching, "[a"), "no glob"),
            (order(|order| &mut order.matching, ""), "1 to 1024"),
            (order(|order| &mut order.matching, &long), "1 to 1024"),
            (order(|order| &mut order.matching, "~(((a{99}){99}){99}){99}"), "shorter"),
        ] {
            assert!(said.contains(expect), "{said}: {expect}");
        }
    }
}
