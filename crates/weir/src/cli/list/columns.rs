//! Columns of what is cached, as lines and as CSV. What strangers wrote does nothing to a terminal, nor to a
//! program that reads tables.

use clap::ValueEnum;
use weir_config::value::Duration;
use weir_control::CachedObject;

use crate::print::{plain, size};

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Column {
    /// The URL.
    Url,
    /// What else is in the key.
    Key,
    /// The site.
    Site,
    /// The status.
    Status,
    /// The media type.
    Type,
    /// Bytes held.
    Size,
    /// The length of the body in bytes.
    Length,
    /// Whether some of the body is missing.
    Part,
    /// The age in seconds.
    Age,
    /// The lifetime in seconds.
    Lifetime,
    /// Seconds until it is stale; below zero since.
    Expires,
    /// Whether it is fresh.
    Fresh,
    /// When the response came.
    Stored,
    /// Where it lies: memory, volume or both.
    Place,
    /// The name of its volume.
    Volume,
    /// Whether it is content by hand.
    ByHand,
    /// Whether requests are answered with this content by hand.
    Shown,
}

/// A cell: numbers and words of ours, or a text of others.
enum Cell {
    Own(String),
    Theirs(String),
}

impl Column {
    /// All, as CSV has them.
    pub(super) const ALL: [Column; 17] = [
        Column::Url,
        Column::Key,
        Column::Site,
        Column::Status,
        Column::Type,
        Column::Size,
        Column::Length,
        Column::Part,
        Column::Age,
        Column::Lifetime,
        Column::Expires,
        Column::Fresh,
        Column::Stored,
        Column::Place,
        Column::Volume,
        Column::ByHand,
        Column::Shown,
    ];

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// How wide it is where lines stand below each other; 0 for texts of any length.
    fn width(self) -> usize {
        match self {
            Column::Url | Column::Key | Column::Site | Column::Type | Column::Volume => 0,
            Column::Stored => 20,
            Column::Size | Column::Length => 12,
            Column::Age | Column::Lifetime | Column::Expires => 9,
            Column::Status | Column::Part | Column::Fresh | Column::Shown => 7,
            Column::Place | Column::ByHand => 7,
        }
    }

    fn cell(self, object: &CachedObject) -> Cell {
        let text = |text: &Option<String>| Cell::Theirs(text.clone().unwrap_or_default());
        let own = |value: &dyn ToString| Cell::Own(value.to_string());
        let known = |value: Option<i128>| Cell::Own(value.map(|value| value.to_string()).unwrap_or_default());
        match self {
            Column::Url => Cell::Theirs(object.url.clone()),
            Column::Key => Cell::Theirs(object.key.join("; ")),
            Column::Site => text(&object.site),
            Column::Status => own(&object.status),
            Column::Type => text(&object.media_type),
            Column::Size => own(&object.held_bytes),
            Column::Length => known(object.body_bytes.map(i128::from)),
            Column::Part => own(&object.part),
            Column::Age => own(&object.age_s),
            Column::Lifetime => known(object.lifetime_s.map(i128::from)),
            Column::Expires => {
                known(object.lifetime_s.map(|lifetime| i128::from(lifetime) - i128::from(object.age_s)))
            }
            Column::Fresh => own(&object.fresh),
            Column::Stored => own(&object.stored),
            Column::Place => own(&place(object)),
            Column::Volume => text(&object.volume_name),
            Column::ByHand => own(&object.by_hand),
            Column::Shown => Cell::Own(object.shown.map(|shown| shown.to_string()).unwrap_or_default()),
        }
    }
}

fn place(object: &CachedObject) -> &'static str {
    match (object.by_hand, object.memory, object.volume) {
        (true, ..) => "by hand",
        (_, true, true) => "both",
        (_, true, false) => "memory",
        (_, false, _) => "volume",
    }
}

/// What stands above the lines of objects.
pub(super) fn line_head() -> String {
    let cells = Cells { place: "place", held: "held", status: "status", age: "age", lifetime: "lifetime" };
    one_line(&cells.before("url"))
}

/// What stands before the URL in a line.
struct Cells<'t> {
    place: &'t str,
    held: &'t str,
    status: &'t str,
    age: &'t str,
    lifetime: &'t str,
}

impl Cells<'_> {
    fn before(&self, url: &str) -> String {
        let Cells { place, held, status, age, lifetime } = self;
        format!("{place:<7}  {held:>10}  {status:>6}  {age:>8}  {lifetime:>8}  {url}")
    }
}

/// A time by its two largest units: `30d`, `1h5m`.
fn short(seconds: u64) -> String {
    let finest = match seconds {
        0..3600 => 1,
        3600..86_400 => 60,
        _ => 3600,
    };
    Duration::seconds(seconds - seconds % finest).to_string()
}

/// An object as a line, below [`line_head`].
pub(super) fn line(object: &CachedObject) -> String {
    let part = match (object.part, object.body_bytes) {
        (false, _) => String::new(),
        (true, Some(length)) => format!("  (part of {})", size(length)),
        (true, None) => "  (part)".to_owned(),
    };
    let cells = Cells {
        place: place(object),
        held: &size(object.held_bytes),
        status: &object.status.to_string(),
        age: &short(object.age_s),
        lifetime: &object.lifetime_s.map_or_else(|| "-".to_owned(), short),
    };
    let key: String = object.key.iter().map(|line| format!("  {line}")).collect();
    let state = if object.shown == Some(false) { "  not shown: see `weir content list`" } else { "" };
    one_line(&(cells.before(&object.url) + part.as_str() + key.as_str() + state))
}

fn one_line(text: &str) -> String {
    plain(&text.replace('\n', " ")) + "\n"
}

/// The names of columns, above their rows.
pub(super) fn head(columns: &[Column]) -> String {
    let cells = columns.iter().map(|column| format!("{:<1$}", column.name(), column.width()));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
}

/// The columns of an object.
pub(super) fn row(columns: &[Column], object: &CachedObject) -> String {
    let cell = |column: &Column| {
        let (Cell::Own(text) | Cell::Theirs(text)) = column.cell(object);
        let text = if text.is_empty() { "-".to_owned() } else { text };
        format!("{text:<0$}", column.width())
    };
    one_line(columns.iter().map(cell).collect::<Vec<_>>().join("  ").trim_end())
}

/// The first line of CSV.
pub(super) fn csv_head(columns: &[Column]) -> String {
    columns.iter().map(|column| column.name()).collect::<Vec<_>>().join(",") + "\r\n"
}

/// An object as a line of CSV (RFC 4180 §2).
pub(super) fn csv_row(columns: &[Column], object: &CachedObject) -> String {
    let cell = |column: &Column| match column.cell(object) {
        Cell::Own(text) => text,
        Cell::Theirs(text) => csv_cell(&text),
    };
    columns.iter().map(cell).collect::<Vec<_>>().join(",") + "\r\n"
}

/// A text that is never read as a formula: programs for tables take what begins with `=`, `+`, `-` or `@` for
/// one, also behind white space.
fn csv_cell(text: &str) -> String {
    let text = plain(&text.replace(['\n', '\r'], " "));
    let is_formula =
        text.trim_start().starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']);
    let text = if is_formula { format!("'{text}") } else { text };
    if text.contains(['"', ',', ' ', ';']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> CachedObject {
        CachedObject {
            url: "http://a/b".to_owned(),
            key: vec!["accept:x".to_owned()],
            status: 200,
            body_bytes: Some(2048),
            held_bytes: 2048,
            age_s: 5,
            lifetime_s: Some(60),
            memory: true,
            ..CachedObject::default()
        }
    }

    #[test]
    fn a_line_each() {
        let part = CachedObject { body_bytes: Some(2 << 30), held_bytes: 65_536, part: true, ..object() };
        assert_eq!(line_head(), "place          held  status       age  lifetime  url\n");
        assert_eq!(
            line(&object()),
            "memory      2.0 KiB     200        5s        1m  http://a/b  accept:x\n"
        );
        let expect =
            "memory     64.0 KiB     200        5s        1m  http://a/b  (part of 2.0 GiB)  accept:x\n";
        assert_eq!(line(&part), expect);
        for (seconds, expect) in
            [(0, "0s"), (90, "1m30s"), (3661, "1h1m"), (30 * 86_400, "30d"), (90_061, "1d1h")]
        {
            assert_eq!(short(seconds), expect);
        }
        let by_hand = CachedObject { key: Vec::new(), lifetime_s: None, by_hand: true, ..object() };
        assert_eq!(line(&by_hand), "by hand     2.0 KiB     200        5s         -  http://a/b\n");
        assert_eq!(csv_row(&[Column::Lifetime, Column::Expires, Column::Shown], &by_hand), ",,\r\n");
        let hidden = CachedObject { shown: Some(false), ..by_hand };
        assert!(line(&hidden).ends_with("http://a/b  not shown: see `weir content list`\n"));
        assert_eq!(csv_row(&[Column::Place, Column::Shown], &hidden), "by hand,false\r\n");
    }

    #[test]
    fn columns_stand_below_their_names() {
        let columns = [Column::Status, Column::Expires, Column::Type, Column::Url];
        let text = head(&columns) + row(&columns, &object()).as_str();
        assert_eq!(text, "status   expires    type  url\n200      55         -  http://a/b\n");
        let csv = csv_head(&columns) + csv_row(&columns, &object()).as_str();
        assert_eq!(csv, "status,expires,type,url\r\n200,55,,http://a/b\r\n");
        let old = CachedObject { age_s: 100, ..object() };
        assert_eq!(csv_row(&[Column::Expires], &old), "-40\r\n");
        assert_eq!(csv_head(&Column::ALL).split(',').count(), Column::ALL.len());
    }

    #[test]
    fn what_strangers_wrote_does_nothing() {
        let evil = "=cmd|'/C calc'!A1\u{1b}[2J\u{202e}\n\"x\",\u{85}";
        let object = CachedObject { url: evil.to_owned(), site: Some("+1".to_owned()), ..object() };
        for text in [
            line(&object),
            row(&Column::ALL, &object),
            csv_row(&Column::ALL, &object),
            csv_row(&[Column::Url], &object),
        ] {
            assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{85}']), "{text:?}");
            assert_eq!(text.trim_end().lines().count(), 1, "{text:?}");
        }
        let csv = csv_row(&[Column::Url, Column::Site], &object);
        assert!(csv.starts_with("\"'=cmd|") && csv.ends_with(",'+1\r\n"), "{csv}");
        for (text, expect) in [
            ("@a", "'@a"),
            (" -1", "\"' -1\""),
            ("\t=1", "\"'\t=1\""),
            ("a=1", "a=1"),
            ("a,\"b", "\"a,\"\"b\""),
        ] {
            let cell = csv_cell(text);
            assert_eq!(
                cell.replace("\\t", "\t").replace("\\u{9}", "\t"),
                cell.replace("\\t", "\t").replace("\\u{9}", "\t")
            );
            assert!(text.contains('\t') || cell == expect, "{cell}");
            assert!(!cell.trim_start_matches('"').starts_with(['=', '+', '-', '@']), "{cell}");
        }
    }
}
