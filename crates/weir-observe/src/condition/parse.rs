//! Reads conditions: `or` joins what `and` joins; `not` and brackets stand before a test.

use regex::bytes::RegexBuilder;

use super::measure::{self, Named};
use super::names::{self, Kind, LogOf, Row};
use super::tokens::{Ends, Token, Tokens, mistake};
use super::tree::{CONDITION_BYTES_MAX, Check, ConditionError, Node, Op, Span, Test, Unknown};

/// How deep brackets and `not` may stand within each other.
const DEPTH_MAX: usize = 32;
/// Patterns of one condition.
const PATTERNS_MAX: usize = 8;
/// The memory that a pattern may take, in bytes.
const PATTERN_BYTES_MAX: usize = 128 << 10;

type Read<T> = Result<T, ConditionError>;

pub(super) fn parse(text: &str, log: LogOf) -> Read<Node> {
    if text.len() > CONDITION_BYTES_MAX {
        return Err(mistake(0, format!("a condition has {CONDITION_BYTES_MAX} bytes at most")));
    }
    let mut reading = Reading { tokens: Tokens::of(text), log, depth: 0, patterns: 0 };
    let root = reading.any()?;
    let at = reading.tokens.place();
    match reading.tokens.next()? {
        Token::End => Ok(root),
        Token::Close => Err(mistake(at, "this bracket closes nothing")),
        _ => Err(mistake(at, "and or or is missing before this")),
    }
}

struct Reading<'t> {
    tokens: Tokens<'t>,
    log: LogOf,
    depth: usize,
    patterns: usize,
}

impl Reading<'_> {
    fn any(&mut self) -> Read<Node> {
        let mut nodes = vec![self.all()?];
        while self.tokens.peek()? == Token::Or {
            self.tokens.next()?;
            nodes.push(self.all()?);
        }
        Ok(if nodes.len() == 1 { nodes.swap_remove(0) } else { Node::Or(nodes) })
    }

    fn all(&mut self) -> Read<Node> {
        let mut nodes = vec![self.one()?];
        while self.tokens.peek()? == Token::And {
            self.tokens.next()?;
            nodes.push(self.one()?);
        }
        Ok(if nodes.len() == 1 { nodes.swap_remove(0) } else { Node::And(nodes) })
    }

    fn one(&mut self) -> Read<Node> {
        let at = self.tokens.place();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(mistake(at, "brackets stand too deep within each other"));
        }
        let node = match self.tokens.next()? {
            Token::Not => Node::Not(Box::new(self.one()?)),
            Token::Open => {
                let node = self.any()?;
                if self.tokens.next()? != Token::Close {
                    return Err(mistake(at, "the bracket that opens here is not closed"));
                }
                node
            }
            Token::Word(word) => self.test(&word, at)?,
            Token::End => return Err(mistake(at, "a condition is missing here").help("as status >= 500")),
            _ => return Err(mistake(at, "a name belongs here").help("as status >= 500")),
        };
        self.depth -= 1;
        Ok(node)
    }

    /// A name, an operator and a value.
    fn test(&mut self, word: &str, at: usize) -> Read<Node> {
        let (row, named) = self.row(word, at)?;
        let place = self.tokens.place();
        let (op, is_not) = match self.tokens.peek()? {
            Token::Op("!=") => ("==", true),
            Token::Op("!~") => ("~", true),
            Token::Op(op) => (op, false),
            Token::In => ("in", false),
            Token::Not => ("in", true),
            _ if row.kind == Kind::Flag => return Ok(test(row, Check::Yes(true))),
            _ => {
                let example = if is_text(row.kind) { "== TEXT" } else { "> NUMBER" };
                return Err(mistake(place, format!("{word} is not compared with anything"))
                    .help(format!("as {word} {example}")));
            }
        };
        let has_not_before = self.tokens.next()? == Token::Not;
        if has_not_before && self.tokens.next()? != Token::In {
            return Err(mistake(place, "not stands before a test, or before in"));
        }
        let check = match op {
            "in" => self.list(row, named)?,
            "~" if is_text(row.kind) => self.pattern()?,
            "==" if is_text(row.kind) => Check::Is(vec![self.text(row, Ends::AtSpace)?]),
            "==" if row.kind == Kind::Flag => self.flag()?,
            "<" | "<=" | ">" | ">=" | "==" if is_number(row.kind) => {
                Check::Number(operator(op), self.number(row, named, Ends::AtSpace)?)
            }
            _ => {
                {
                    let message = format!("{word} cannot be compared with {op}");
                    return Err(mistake(place, message).help(ops(row.kind)));
                };
            }
        };
        let node = test(row, check);
        Ok(if is_not { Node::Not(Box::new(node)) } else { node })
    }

    /// What a name stands for, and whether it says its unit.
    fn row(&self, word: &str, at: usize) -> Read<(&'static Row, Named)> {
        let rows = names::rows(self.log);
        if let Some(row) = rows.iter().find(|row| row.name == word) {
            return Ok((row, Named::WithUnit));
        }
        if let Some(row) = rows.iter().find(|row| row.other == word) {
            return Ok((row, Named::Without));
        }
        let others = rows.iter().map(|row| row.other).filter(|other| !other.is_empty());
        let known: Vec<&'static str> = self.log.names().chain(others).collect();
        let mut error = mistake(at, format!("{word} is no name of this log"));
        error.unknown = Some(Unknown { word: word.to_owned(), known });
        Err(error)
    }

    /// `(a, b)`, or `a, b`.
    fn list(&mut self, row: &Row, named: Named) -> Read<Check> {
        let at = self.tokens.place();
        let is_bracketed = self.tokens.peek()? == Token::Open;
        if is_bracketed {
            self.tokens.next()?;
        }
        let (mut texts, mut numbers) = (Vec::new(), Vec::new());
        loop {
            match row.kind {
                Kind::Flag => return Err(mistake(at, format!("{} is yes or no", row.name))),
                kind if is_number(kind) => numbers.push(self.number(row, named, Ends::AtComma)?),
                _ => texts.push(self.text(row, Ends::AtComma)?),
            }
            if self.tokens.peek()? != Token::Comma {
                break;
            }
            self.tokens.next()?;
        }
        if is_bracketed && self.tokens.next()? != Token::Close {
            return Err(mistake(at, "the bracket that opens here is not closed"));
        }
        Ok(if is_number(row.kind) { Check::Numbers(numbers) } else { Check::Is(texts) })
    }

    fn number(&mut self, row: &Row, named: Named, ends: Ends) -> Read<Span> {
        let at = self.tokens.place();
        let text = self.tokens.value(ends)?;
        measure::read(&text, row.kind, named)
            .map_err(|help| mistake(at, format!("{text} is no value of {}", row.name)).help(help))
    }

    /// A text, which is one of Weir's words where the name has those alone.
    fn text(&mut self, row: &Row, ends: Ends) -> Read<String> {
        let at = self.tokens.place();
        let text = self.tokens.value(ends)?;
        if let Kind::Word(words) = row.kind {
            let known = words.all();
            if !text.is_empty() && !known.contains(&text.as_str()) {
                let mut error = mistake(at, format!("{} is never {text}", row.name));
                error.unknown = Some(Unknown { word: text, known });
                return Err(error);
            }
        }
        Ok(text)
    }

    fn flag(&mut self) -> Read<Check> {
        let at = self.tokens.place();
        match self.tokens.value(Ends::AtSpace)?.as_str() {
            "true" | "yes" => Ok(Check::Yes(true)),
            "false" | "no" => Ok(Check::Yes(false)),
            _ => Err(mistake(at, "write true or false")),
        }
    }

    fn pattern(&mut self) -> Read<Check> {
        let at = self.tokens.place();
        let text = self.tokens.value(Ends::AtSpace)?;
        self.patterns += 1;
        if self.patterns > PATTERNS_MAX {
            return Err(mistake(at, format!("a condition has {PATTERNS_MAX} patterns at most")));
        }
        // Of bytes: letters of both cases are those of ASCII.
        let built = RegexBuilder::new(&text)
            .unicode(false)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .build();
        built.map(Check::Matches).map_err(|error| mistake(at, format!("no pattern: {}", reason(&error))))
    }
}

/// Why a text is no pattern: the last line of what the parser draws.
fn reason(error: &regex::Error) -> String {
    let said = error.to_string();
    let last = said.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

fn test(row: &Row, check: Check) -> Node {
    Node::Test(Test { field: row.field, check, sites: None })
}

fn is_text(kind: Kind) -> bool {
    matches!(kind, Kind::Text | Kind::Word(_))
}

fn is_number(kind: Kind) -> bool {
    !is_text(kind) && kind != Kind::Flag
}

fn operator(op: &str) -> Op {
    match op {
        "<" => Op::Below,
        "<=" => Op::AtMost,
        ">" => Op::Above,
        ">=" => Op::AtLeast,
        _ => Op::Is,
    }
}

fn ops(kind: Kind) -> &'static str {
    match kind {
        Kind::Flag => "it is yes or no: use it alone, or after not",
        _ if is_text(kind) => "it is a text: use ==, !=, ~, !~ or in",
        _ => "it is a number: use ==, !=, <, <=, >, >= or in",
    }
}
