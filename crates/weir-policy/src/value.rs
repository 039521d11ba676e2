//! Values: texts in which `{placeholder | filter}` stands for a part of a request or of its response. They
//! are parsed when the configuration is loaded, and rendered into bytes. It must not look anything up
//! itself: what is known of a request is asked of a [`Known`].

mod parse;
mod render;
mod table;

pub use parse::ValueError;
pub use render::{Known, LOG_BYTES_MAX, Style, each_of_request, of_request};
pub use table::{ROWS, Row, Scope, Time, What};

use std::fmt;

/// A text with places for parts of a request or of its response.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Value(Vec<Part>);

/// A piece of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Part {
    /// Text that is used as it is.
    Text(String),
    /// What a request or its response says.
    Of(Placeholder),
}

/// A placeholder with its filters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Placeholder {
    /// What it stands for.
    pub what: What,
    filters: Vec<Filter>,
}

/// What is done to the text that a placeholder stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Filter {
    /// This text where there is none, or an empty one.
    Default(String),
    /// ASCII letters become small.
    Lower,
    /// The text as JSON in ASCII: a string in quotes, or `null` where there is none.
    Json,
}

impl Value {
    /// Its pieces in order.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Its first pieces alone.
    #[must_use]
    pub fn first(&self, pieces: usize) -> Value {
        Value(self.0.iter().take(pieces).cloned().collect())
    }

    /// Its placeholders in order.
    pub fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Of(placeholder) => Some(placeholder),
        })
    }

    /// The text of a value without placeholders.
    pub fn constant(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The highest capture that it names; 0 for none.
    pub fn capture_max(&self) -> u8 {
        let captures = self.placeholders().map(|placeholder| match placeholder.what {
            What::Capture(number) => number,
            _ => 0,
        });
        captures.max().unwrap_or_default()
    }
}

impl Placeholder {
    /// The placeholder without filters.
    pub fn of(what: What) -> Placeholder {
        Placeholder { what, filters: Vec::new() }
    }

    /// Whether it has filters.
    pub fn is_filtered(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Whether it is written as JSON, with quotes of its own.
    pub fn is_json(&self) -> bool {
        self.filters.contains(&Filter::Json)
    }
}

/// As it may be written: `{header.Host | lower}`.
impl fmt::Display for Placeholder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{{{}", self.what)?;
        for filter in &self.filters {
            match filter {
                Filter::Default(text) if text.contains('"') => write!(out, " | default '{text}'")?,
                Filter::Default(text) => write!(out, " | default \"{text}\"")?,
                Filter::Lower => out.write_str(" | lower")?,
                Filter::Json => out.write_str(" | json")?,
            }
        }
        out.write_str("}")
    }
}

/// As it may be written; parsed again it is the same value.
impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.write_str(&text.replace('{', "{{").replace('}', "}}"))?,
                Part::Of(placeholder) => write!(out, "{placeholder}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
