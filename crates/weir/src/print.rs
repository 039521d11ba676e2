//! What commands print: text and JSON on the standard output, counts, sizes, and errors as sentences.

use std::io::{self, Write};

use serde::Serialize;
use weir_observe::{escaped, steers};

/// Writes to the standard output. A reader that has gone is no error.
pub(crate) fn say(text: &str) -> io::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes JSON, indented, to the standard output.
pub(crate) fn say_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    // Within texts it is the escape of JSON.
    Ok(say(&plain(&text))?)
}

/// A text whose characters do nothing to a terminal: those that would are written as `\u001b`. Line feeds
/// stay.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) && c != '\n' {
            plain += &escaped(c);
        } else {
            plain.push(c);
        }
    }
    plain
}

/// `1 site`, `2 sites`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `512 B`, `18.4 KiB`: powers of 1024, as in the configuration.
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1023.95 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// An error with its causes, without those that its own text names.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::Context;

    #[test]
    fn sizes_read_well() {
        for (bytes, expect) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (256 << 20, "256.0 MiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(super::size(bytes), expect);
        }
    }

    #[test]
    fn causes_are_said_once() {
        let told = io::Error::other("disk on fire");
        let error = anyhow::Error::new(told).context("cannot write: disk on fire; use water");
        assert_eq!(super::sentence(&error), "cannot write: disk on fire; use water");
        let untold: Result<(), _> = Err(io::Error::other("disk on fire")).context("cannot write");
        assert_eq!(super::sentence(&untold.unwrap_err()), "cannot write: disk on fire");
    }
}
