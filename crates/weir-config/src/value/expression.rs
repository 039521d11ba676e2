//! Expressions over metrics: `1 - rate(node_cpu_seconds_total{mode="idle"})`. Selectors and filters are those
//! of Prometheus. Must not evaluate anything.

use super::text_value;
use crate::nearest::nearest;
use regex::{Regex, RegexBuilder};
use std::{fmt, ops::Range, str::FromStr};

/// The longest expression, in bytes.
const BYTES_MAX: usize = 2000;
/// How deep brackets and functions may stand in each other.
const DEPTH_MAX: usize = 32;
/// The most bytes that a compiled pattern may take.
const REGEX_BYTES_MAX: usize = 1 << 18;

/// An expression over metrics.
#[derive(Debug, Clone)]
pub struct MetricExpression {
    /// As it was written.
    text: String,
    /// What it means.
    pub term: Term,
}

text_value!(
    MetricExpression,
    "weir-metric-expression",
    "an expression over metrics: `1 - rate(node_cpu_seconds_total{mode=\"idle\"})`"
);

impl PartialEq for MetricExpression {
    fn eq(&self, other: &MetricExpression) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for MetricExpression {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// A part of an expression.
#[derive(Debug, Clone)]
pub enum Term {
    /// A number.
    Number(f64),
    /// The series of a selector.
    Series(Selector),
    /// How fast the counters of a selector grow, a second.
    Rate(Selector),
    /// One number of all series.
    Of(Aggregate, Box<Term>),
    /// Two terms; series belong together where their labels are the same.
    Both(Operator, Box<Term>, Box<Term>),
}

/// How several series become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// An operator of two terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// The series of a name that pass all filters.
#[derive(Debug, Clone)]
pub struct Selector {
    /// The metric's name.
    pub name: String,
    /// What their labels must be.
    pub filters: Vec<Filter>,
}

/// What a label must be. A label that is missing is the empty text.
#[derive(Debug, Clone)]
pub struct Filter {
    /// The label's name.
    pub label: String,
    /// What it is compared with.
    pub test: Test,
    /// Whether it must not pass (`!=`, `!~`).
    pub is_not: bool,
}

/// What a label is compared with.
#[derive(Debug, Clone)]
pub enum Test {
    /// This text. `{host}`, `{port}` and `{id}` in it stand for those of the origin.
    Text(String),
    /// A pattern for the whole label.
    Pattern(Regex),
}

impl Term {
    /// All its selectors.
    pub fn selectors(&self) -> Vec<&Selector> {
        match self {
            Term::Number(_) => Vec::new(),
            Term::Series(selector) | Term::Rate(selector) => vec![selector],
            Term::Of(_, inner) => inner.selectors(),
            Term::Both(_, left, right) => [left.selectors(), right.selectors()].concat(),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)?;
        let filters = self.filters.iter().map(|filter| {
            let (sign, text) = match (&filter.test, filter.is_not) {
                (Test::Text(text), false) => ("=", text.as_str()),
                (Test::Text(text), true) => ("!=", text.as_str()),
                (Test::Pattern(pattern), false) => ("=~", pattern.as_str()),
                (Test::Pattern(pattern), true) => ("!~", pattern.as_str()),
            };
            format!("{}{sign}{text:?}", filter.label)
        });
        match filters.collect::<Vec<_>>().join(",") {
            none if none.is_empty() => Ok(()),
            some => write!(out, "{{{some}}}"),
        }
    }
}

impl FromStr for MetricExpression {
    type Err = String;

    fn from_str(text: &str) -> Result<MetricExpression, String> {
        MetricExpression::parse(text).map_err(|(_, sentence)| sentence)
    }
}

impl MetricExpression {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong, and its bytes in the text.
    pub fn parse(text: &str) -> Result<MetricExpression, (Range<usize>, String)> {
        if text.len() > BYTES_MAX {
            return Err((0..text.len(), format!("an expression has at most {BYTES_MAX} bytes")));
        }
        let mut parser = Parser { text, at: 0, depth: 0 };
        let term = parser.sum()?;
        match parser.peek() {
            None => Ok(MetricExpression { text: text.to_owned(), term }),
            Some(_) => Err(parser.unexpected("an operator or the end")),
        }
    }
}

type Parsed<T> = Result<T, (Range<usize>, String)>;

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// The next character that is no blank.
    fn peek(&mut self) -> Option<char> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += if is_there { wanted.len_utf8() } else { 0 };
        is_there
    }

    fn unexpected(&mut self, wanted: &str) -> (Range<usize>, String) {
        match self.peek() {
            Some(found) => {
                (self.at..self.at + found.len_utf8(), format!("`{found}` stands where {wanted} should be"))
            }
            None => (self.at..self.at, format!("the expression ends where {wanted} should be")),
        }
    }

    fn sum(&mut self) -> Parsed<Term> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err((self.at..self.text.len(), format!("more than {DEPTH_MAX} terms in each other")));
        }
        let mut left = self.product()?;
        loop {
            let operator = match self.peek() {
                Some('+') => Operator::Add,
                Some('-') => Operator::Subtract,
                _ => break,
            };
            self.at += 1;
            left = Term::Both(operator, Box::new(left), Box::new(self.product()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn product(&mut self) -> Parsed<Term> {
        let mut left = self.factor()?;
        loop {
            let operator = match self.peek() {
                Some('*') => Operator::Multiply,
                Some('/') => Operator::Divide,
                _ => return Ok(left),
            };
            self.at += 1;
            left = Term::Both(operator, Box::new(left), Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Parsed<Term> {
        let mut is_negative = false;
        while self.eat('-') {
            is_negative = !is_negative;
        }
        let term = match self.peek() {
            Some('(') => {
                self.at += 1;
                let term = self.sum()?;
                self.close()?;
                term
            }
            Some(digit) if digit.is_ascii_digit() || digit == '.' => self.number()?,
            Some(start) if is_name_start(start) => self.named()?,
            Some('"' | '\'') => Term::Series(self.quoted_selector()?),
            _ => return Err(self.unexpected("a number, a metric or a bracket")),
        };
        match is_negative {
            true => Ok(Term::Both(Operator::Subtract, Box::new(Term::Number(0.0)), Box::new(term))),
            false => Ok(term),
        }
    }

    fn close(&mut self) -> Parsed<()> {
        if self.eat(')') { Ok(()) } else { Err(self.unexpected("`)`")) }
    }

    fn number(&mut self) -> Parsed<Term> {
        let rest = self.rest();
        let mut end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if let Some(exponent) = rest[end..].strip_prefix(['e', 'E']) {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let count = digits.bytes().take_while(u8::is_ascii_digit).count();
            end += if count > 0 { 1 + exponent.len() - digits.len() + count } else { 0 };
        }
        let place = self.at..self.at + end;
        let number = rest[..end].parse::<f64>().ok().filter(|number| number.is_finite());
        self.at += end;
        number.map(Term::Number).ok_or_else(|| (place, format!("`{}` is no number", &rest[..end])))
    }

    fn word(&mut self) -> (Range<usize>, &'t str) {
        self.peek();
        let rest = self.rest();
        let end = rest.find(|c: char| !is_name_start(c) && !c.is_ascii_digit() && c != '.');
        let end = end.unwrap_or(rest.len());
        let place = self.at..self.at + end;
        self.at += end;
        (place, &rest[..end])
    }

    /// A selector or a function.
    fn named(&mut self) -> Parsed<Term> {
        let (place, word) = self.word();
        if !self.eat('(') {
            return Ok(Term::Series(self.filtered(word)?));
        }
        let term = match word {
            "rate" => Term::Rate(self.of_rate()?),
            "sum" => Term::Of(Aggregate::Sum, Box::new(self.sum()?)),
            "mean" => Term::Of(Aggregate::Mean, Box::new(self.sum()?)),
            "max" => Term::Of(Aggregate::Max, Box::new(self.sum()?)),
            "min" => Term::Of(Aggregate::Min, Box::new(self.sum()?)),
            _ => {
                let known = ["rate", "sum", "mean", "max", "min"];
                let meant = match (word, nearest(word, known.into_iter())) {
                    ("avg" | "average", _) => "did you mean `mean`?".to_owned(),
                    ("irate" | "increase" | "deriv", _) => "did you mean `rate`?".to_owned(),
                    (_, Some(near)) => format!("did you mean `{near}`?"),
                    (_, None) => "there are `rate`, `sum`, `mean`, `max` and `min`".to_owned(),
                };
                return Err((place, format!("unknown function `{word}`: {meant}")));
            }
        };
        self.close()?;
        Ok(term)
    }

    /// The selector in `rate(…)`.
    fn of_rate(&mut self) -> Parsed<Selector> {
        let selector = match self.peek() {
            Some('"' | '\'') => self.quoted_selector()?,
            Some(start) if is_name_start(start) => {
                let (place, word) = self.word();
                if self.peek() == Some('(') {
                    let sentence = "`rate` is of a metric: write `sum(rate(…))`, not `rate(sum(…))`";
                    return Err((place, sentence.to_owned()));
                }
                self.filtered(word)?
            }
            _ => return Err(self.unexpected("a metric")),
        };
        if self.peek() == Some('[') {
            let end = self.rest().find(']').map_or(self.text.len(), |end| self.at + end + 1);
            let sentence = "`rate` is over the time between two reads: leave the brackets out";
            return Err((self.at..end, sentence.to_owned()));
        }
        Ok(selector)
    }

    fn quoted_selector(&mut self) -> Parsed<Selector> {
        let (place, name) = self.quoted()?;
        if name.is_empty() {
            return Err((place, "a metric has a name".to_owned()));
        }
        self.filtered(&name)
    }

    fn filtered(&mut self, name: &str) -> Parsed<Selector> {
        let mut filters = Vec::new();
        if self.eat('{') {
            while !self.eat('}') {
                filters.push(self.filter()?);
                if !self.eat(',') && self.peek() != Some('}') {
                    return Err(self.unexpected("`,` or `}`"));
                }
            }
        }
        Ok(Selector { name: name.to_owned(), filters })
    }

    fn filter(&mut self) -> Parsed<Filter> {
        let (_, label) = self.word();
        if label.is_empty() {
            return Err(self.unexpected("a label"));
        }
        self.peek();
        let signs = [("=~", false, true), ("!~", true, true), ("!=", true, false), ("=", false, false)];
        let Some((sign, is_not, is_pattern)) =
            signs.into_iter().find(|(sign, _, _)| self.rest().starts_with(sign))
        else {
            return Err(self.unexpected("`=`, `!=`, `=~` or `!~`"));
        };
        self.at += sign.len();
        let (place, text) = self.quoted()?;
        let test = match is_pattern {
            false => Test::Text(text),
            true => {
                let whole = format!("^(?:{text})$");
                let made = RegexBuilder::new(&whole).size_limit(REGEX_BYTES_MAX).build();
                Test::Pattern(made.map_err(|error| (place, format!("no pattern: {error}")))?)
            }
        };
        Ok(Filter { label: label.to_owned(), test, is_not })
    }

    /// A text in quotes.
    fn quoted(&mut self) -> Parsed<(Range<usize>, String)> {
        let Some(quote @ ('"' | '\'')) = self.peek() else { return Err(self.unexpected("a text in quotes")) };
        let start = self.at;
        let mut text = String::new();
        let mut letters = self.rest().char_indices().skip(1);
        while let Some((at, letter)) = letters.next() {
            match letter {
                _ if letter == quote => {
                    self.at += at + 1;
                    return Ok((start..self.at, text));
                }
                '\\' => match letters.next().map(|(_, escaped)| escaped) {
                    Some('n') => text.push('\n'),
                    Some(escaped @ ('\\' | '"' | '\'')) => text.push(escaped),
                    // As in a pattern: `\.`, `\d`.
                    Some(escaped) => text.extend(['\\', escaped]),
                    None => break,
                },
                _ => text.push(letter),
            }
        }
        Err((start..self.text.len(), "this text does not end".to_owned()))
    }
}

fn is_name_start(letter: char) -> bool {
    letter.is_ascii_alphabetic() || matches!(letter, '_' | ':')
}

#[cfg(test)]
mod tests;
