//! The text of a condition, taken apart.

use super::tree::ConditionError;

/// A piece of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Open,
    Close,
    Comma,
    /// `==`, `!=`, `<`, `<=`, `>`, `>=`, `~`, `!~`.
    Op(&'static str),
    Not,
    And,
    Or,
    In,
    /// A name.
    Word(String),
    End,
}

/// The rest of a condition.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

const MARKS: [(&str, Token); 14] = [
    ("==", Token::Op("==")),
    ("!=", Token::Op("!=")),
    ("<=", Token::Op("<=")),
    (">=", Token::Op(">=")),
    ("!~", Token::Op("!~")),
    ("&&", Token::And),
    ("||", Token::Or),
    ("<", Token::Op("<")),
    (">", Token::Op(">")),
    ("~", Token::Op("~")),
    ("!", Token::Not),
    ("(", Token::Open),
    (")", Token::Close),
    (",", Token::Comma),
];

impl<'t> Tokens<'t> {
    pub(super) fn of(text: &'t str) -> Tokens<'t> {
        Tokens { text, at: 0 }
    }

    /// Where the next piece begins.
    pub(super) fn place(&mut self) -> usize {
        self.at += self.text[self.at..].len() - self.text[self.at..].trim_start().len();
        self.at
    }

    /// The next piece, which stays.
    pub(super) fn peek(&mut self) -> Result<Token, ConditionError> {
        self.clone().next()
    }

    /// Takes the next piece.
    pub(super) fn next(&mut self) -> Result<Token, ConditionError> {
        let at = self.place();
        let rest = &self.text[at..];
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        if let Some((mark, token)) = MARKS.iter().find(|(mark, _)| rest.starts_with(mark)) {
            self.at += mark.len();
            return Ok(token.clone());
        }
        if first == '=' {
            return Err(mistake(at, "one = compares nothing").help("write =="));
        }
        if matches!(first, '&' | '|') {
            return Err(mistake(at, format!("one {first} joins nothing")).help("write and, or"));
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        if end == 0 {
            return Err(
                mistake(at, "a name belongs here").help("a text stands after a name, as in url ~ \"^/api\"")
            );
        }
        self.at += end;
        Ok(match &rest[..end] {
            "and" => Token::And,
            "or" => Token::Or,
            "not" => Token::Not,
            "in" => Token::In,
            word => Token::Word(word.to_owned()),
        })
    }

    /// Takes a value: a text in quotes, or what stands there up to a space, a comma between values, or a
    /// bracket that closes more than the value has opened.
    pub(super) fn value(&mut self, ends: Ends) -> Result<String, ConditionError> {
        let at = self.place();
        let rest = &self.text[at..];
        let value = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => return self.quoted(quote),
            _ => &rest[..bare(rest, ends)],
        };
        if value.is_empty() || matches!(value, "and" | "or") {
            return Err(mistake(at, "a value is missing here"));
        }
        self.at += value.len();
        Ok(value.to_owned())
    }

    /// Takes a text in quotes. A backslash before a quote makes it part of the text, and is itself otherwise:
    /// patterns have many.
    fn quoted(&mut self, quote: char) -> Result<String, ConditionError> {
        let at = self.at;
        let mut value = String::new();
        let mut chars = self.text[at..].char_indices().skip(1).peekable();
        while let Some((place, c)) = chars.next() {
            if c == quote {
                self.at += place + c.len_utf8();
                return Ok(value);
            }
            if c == '\\' && chars.peek().is_some_and(|(_, next)| *next == quote) {
                chars.next();
                value.push(quote);
            } else {
                value.push(c);
            }
        }
        Err(mistake(at, "the text that begins here has no end").help(format!("close it with {quote}")))
    }
}

/// Where a value without quotes ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    AtSpace,
    AtComma,
}

/// The length of a value without quotes.
fn bare(text: &str, ends: Ends) -> usize {
    let mut open = 0_u32;
    for (at, c) in text.char_indices() {
        match c {
            '(' => open += 1,
            ')' if open == 0 => return at,
            ')' => open -= 1,
            ',' if ends == Ends::AtComma && open == 0 => return at,
            _ if c.is_whitespace() => return at,
            _ => {}
        }
    }
    text.len()
}

/// A mistake at a place.
pub(super) fn mistake(at: usize, message: impl Into<String>) -> ConditionError {
    ConditionError { message: message.into(), at, help: String::new(), unknown: None }
}

impl ConditionError {
    /// The same with what to write instead.
    pub(super) fn help(self, help: impl Into<String>) -> ConditionError {
        ConditionError { help: help.into(), ..self }
    }
}
