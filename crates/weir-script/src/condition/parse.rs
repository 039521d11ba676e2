//! From the text of a condition or a measure to its tree: recursive descent of bounded depth. Whether a part
//! is a number, a text or a condition is known from its words. It must not let through what an origin could
//! make fail later.

use super::{DEPTH_MAX, Fault, Flag, Holds, Number, Order, Relation, Sign, Sum, TEXT_BYTES_MAX, Text, Word};

/// Reads a condition.
pub(super) fn condition(text: &str) -> Result<Holds, Fault> {
    let mut reader = Reader::new(text)?;
    let part = reader.whole()?;
    part.into_holds()
}

/// Reads a measure.
pub(super) fn measure(text: &str) -> Result<Sum, Fault> {
    let mut reader = Reader::new(text)?;
    let part = reader.whole()?;
    part.into_sum()
}

/// A part of the text, and where it begins.
struct Part {
    at: usize,
    is: Is,
}

enum Is {
    Holds(Holds),
    Sum(Sum),
    Word(Word),
}

impl Part {
    fn kind(&self) -> &'static str {
        match self.is {
            Is::Holds(_) => "a condition",
            Is::Sum(_) => "a number",
            Is::Word(_) => "a text",
        }
    }

    fn not(self, wanted: &str) -> Fault {
        let hint = match (&self.is, wanted) {
            (Is::Sum(_), "a condition") => ": compare it with something, as in `cpu < 0.8`",
            _ => "",
        };
        Fault { at: self.at, why: format!("this is {}, where {wanted} is wanted{hint}", self.kind()) }
    }

    fn into_holds(self) -> Result<Holds, Fault> {
        match self.is {
            Is::Holds(holds) => Ok(holds),
            _ => Err(self.not("a condition")),
        }
    }

    fn into_sum(self) -> Result<Sum, Fault> {
        match self.is {
            Is::Sum(sum) => Ok(sum),
            _ => Err(self.not("a number")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'t> {
    Number(f64),
    Text(&'t str),
    Name(&'t str),
    Sign(&'t str),
    End,
}

/// What stands between two values that are compared.
enum Between {
    Numbers(Order),
    Texts(Relation),
    Any(Order, Relation),
}

struct Reader<'t> {
    text: &'t str,
    /// Where the next token is looked for.
    next: usize,
    /// The token under consideration, and where it begins.
    token: Token<'t>,
    at: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Result<Reader<'t>, Fault> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Fault { at: 0, why: format!("it is longer than {TEXT_BYTES_MAX} bytes") });
        }
        let mut reader = Reader { text, next: 0, token: Token::End, at: 0, depth: 0 };
        reader.advance()?;
        Ok(reader)
    }

    fn fault(&self, why: impl Into<String>) -> Fault {
        Fault { at: self.at, why: why.into() }
    }

    fn whole(&mut self) -> Result<Part, Fault> {
        let part = self.either()?;
        match self.token {
            Token::End => Ok(part),
            _ => Err(self.fault("the condition should end here")),
        }
    }

    /// Goes one level down.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.fault(format!("it is nested deeper than {DEPTH_MAX} levels")));
        }
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Whether the token is one of these signs or words; then it is passed.
    fn takes(&mut self, words: &[&str]) -> Result<bool, Fault> {
        let is = match self.token {
            Token::Sign(sign) => words.contains(&sign),
            Token::Name(name) => words.contains(&name),
            _ => false,
        };
        if is {
            self.advance()?;
        }
        Ok(is)
    }

    fn either(&mut self) -> Result<Part, Fault> {
        let mut part = self.both()?;
        let mut links = 0;
        while self.takes(&["or", "||"])? {
            links = self.linked(links)?;
            let (at, one) = (part.at, part.into_holds()?);
            let other = self.both()?.into_holds()?;
            part = Part { at, is: Is::Holds(Holds::Either(Box::new(one), Box::new(other))) };
        }
        Ok(part)
    }

    fn both(&mut self) -> Result<Part, Fault> {
        let mut part = self.contrary()?;
        let mut links = 0;
        while self.takes(&["and", "&&"])? {
            links = self.linked(links)?;
            let (at, one) = (part.at, part.into_holds()?);
            let other = self.contrary()?.into_holds()?;
            part = Part { at, is: Is::Holds(Holds::Both(Box::new(one), Box::new(other))) };
        }
        Ok(part)
    }

    /// A chain makes the tree deep as well.
    fn linked(&self, links: usize) -> Result<usize, Fault> {
        if links >= DEPTH_MAX {
            return Err(self.fault(format!("it has more than {DEPTH_MAX} parts in a row")));
        }
        Ok(links + 1)
    }

    fn contrary(&mut self) -> Result<Part, Fault> {
        let at = self.at;
        if self.takes(&["not", "!"])? {
            let inner = self.nested(Self::contrary)?.into_holds()?;
            return Ok(Part { at, is: Is::Holds(Holds::Not(Box::new(inner))) });
        }
        self.compared()
    }

    fn compared(&mut self) -> Result<Part, Fault> {
        let one = self.sum()?;
        let Some(between) = self.between() else { return Ok(one) };
        let between_at = self.at;
        self.advance()?;
        let other = self.sum()?;
        let at = one.at;
        let holds = match (one.is, other.is) {
            (Is::Word(one), Is::Word(other)) => match between {
                Between::Texts(relation) | Between::Any(_, relation) => Holds::Texts(one, relation, other),
                Between::Numbers(_) => {
                    let why = "texts are compared with `==`, `!=` and `begins` only".to_owned();
                    return Err(Fault { at: between_at, why });
                }
            },
            (Is::Sum(one), Is::Sum(other)) => match between {
                Between::Numbers(order) | Between::Any(order, _) => Holds::Compared(one, order, other),
                Between::Texts(_) => {
                    let why = "`begins` stands between texts".to_owned();
                    return Err(Fault { at: between_at, why });
                }
            },
            (Is::Sum(_), is) => return Err(Part { at: other.at, is }.not("a number")),
            (Is::Word(_), is) => return Err(Part { at: other.at, is }.not("a text")),
            (is, _) => return Err(Part { at, is }.not("a number")),
        };
        Ok(Part { at, is: Is::Holds(holds) })
    }

    fn between(&self) -> Option<Between> {
        let sign = match self.token {
            Token::Name("begins") => return Some(Between::Texts(Relation::Begins)),
            Token::Sign(sign) => sign,
            _ => return None,
        };
        Some(match sign {
            "<" => Between::Numbers(Order::Less),
            "<=" => Between::Numbers(Order::AtMost),
            "==" | "=" => Between::Any(Order::Same, Relation::Same),
            "!=" => Between::Any(Order::Other, Relation::Other),
            ">=" => Between::Numbers(Order::AtLeast),
            ">" => Between::Numbers(Order::More),
            _ => return None,
        })
    }

    fn sum(&mut self) -> Result<Part, Fault> {
        let mut part = self.product()?;
        let mut links = 0;
        while let Token::Sign(word @ ("+" | "-")) = self.token {
            self.advance()?;
            links = self.linked(links)?;
            let other = self.product()?;
            part = joined(part, if word == "+" { Sign::Plus } else { Sign::Minus }, other)?;
        }
        Ok(part)
    }

    fn product(&mut self) -> Result<Part, Fault> {
        let mut part = self.minus()?;
        let mut links = 0;
        while let Token::Sign(word @ ("*" | "/")) = self.token {
            self.advance()?;
            links = self.linked(links)?;
            let other = self.minus()?;
            part = joined(part, if word == "*" { Sign::Times } else { Sign::By }, other)?;
        }
        Ok(part)
    }

    fn minus(&mut self) -> Result<Part, Fault> {
        let at = self.at;
        if self.takes(&["-"])? {
            let inner = self.nested(Self::minus)?.into_sum()?;
            return Ok(Part { at, is: Is::Sum(Sum::Minus(Box::new(inner))) });
        }
        self.atom()
    }

    fn atom(&mut self) -> Result<Part, Fault> {
        let at = self.at;
        let is = match self.token {
            Token::Number(number) => Is::Sum(Sum::Given(number)),
            Token::Text(text) => Is::Word(Word::Given(text.into())),
            Token::Name(name) => {
                self.advance()?;
                return Ok(Part { at, is: self.named(name, at)? });
            }
            Token::Sign("(") => {
                self.advance()?;
                let inner = self.nested(Self::either)?;
                self.close()?;
                return Ok(Part { at, is: inner.is });
            }
            Token::Sign(_) => return Err(self.fault("a name, a number or a text is missing here")),
            Token::End => return Err(self.fault("it ends where a name, a number or a text is missing")),
        };
        self.advance()?;
        Ok(Part { at, is })
    }

    fn close(&mut self) -> Result<(), Fault> {
        if self.takes(&[")"])? { Ok(()) } else { Err(self.fault("`)` is missing here")) }
    }

    fn named(&mut self, name: &str, at: usize) -> Result<Is, Fault> {
        if self.token == Token::Sign("(") {
            return self.called(name, at);
        }
        Ok(match name {
            "in_flight" => Is::Sum(Sum::Own(Number::InFlight)),
            "latency" => Is::Sum(Sum::Own(Number::Latency)),
            "weight" => Is::Sum(Sum::Own(Number::Weight)),
            "name" => Is::Word(Word::Own(Text::Name)),
            "id" => Is::Word(Word::Own(Text::Id)),
            "standing" => Is::Word(Word::Own(Text::Standing)),
            "up" => Is::Holds(Holds::Flag(Flag::Up)),
            "backup" => Is::Holds(Holds::Flag(Flag::Backup)),
            "and" | "or" | "not" | "begins" => {
                return Err(Fault { at, why: format!("something is missing before `{name}`") });
            }
            metric => Is::Sum(Sum::Metric(metric.into())),
        })
    }

    /// `age(cpu)`, `known(cpu)`.
    fn called(&mut self, word: &str, at: usize) -> Result<Is, Fault> {
        if !matches!(word, "age" | "known") {
            let why = format!("there is no `{word}(…)`: there are `age(METRIC)` and `known(METRIC)`");
            return Err(Fault { at, why });
        }
        self.advance()?;
        let Token::Name(metric) = self.token else {
            return Err(self.fault("the name of a metric is missing here"));
        };
        self.advance()?;
        self.close()?;
        Ok(match word {
            "age" => Is::Sum(Sum::Age(metric.into())),
            _ => Is::Holds(Holds::Known(metric.into())),
        })
    }

    fn advance(&mut self) -> Result<(), Fault> {
        let rest = &self.text[self.next..];
        let spaces = rest.len() - rest.trim_ascii_start().len();
        self.at = self.next + spaces;
        let rest = &rest[spaces..];
        let (token, length) = self.token_of(rest)?;
        self.token = token;
        self.next = self.at + length;
        Ok(())
    }

    fn token_of(&self, rest: &'t str) -> Result<(Token<'t>, usize), Fault> {
        let Some(first) = rest.bytes().next() else { return Ok((Token::End, 0)) };
        let length = |is_part: fn(u8) -> bool| rest.bytes().take_while(|byte| is_part(*byte)).count();
        match first {
            b'0'..=b'9' | b'.' => {
                let end = length(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
                let number = rest[..end].parse::<f64>().ok().filter(|number| number.is_finite());
                let number = number.ok_or_else(|| self.fault(format!("`{}` is no number", &rest[..end])))?;
                Ok((Token::Number(number), end))
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let end = length(|byte| byte.is_ascii_alphanumeric() || b"_.:".contains(&byte));
                Ok((Token::Name(&rest[..end]), end))
            }
            // Names of metrics with other characters.
            b'`' => {
                let end = rest[1..].find('`').ok_or_else(|| self.fault("this name has no end"))?;
                Ok((Token::Name(&rest[1..=end]), end + 2))
            }
            b'\'' | b'"' => {
                let end = rest[1..].find(char::from(first));
                let end = end.ok_or_else(|| self.fault("this text has no end"))?;
                Ok((Token::Text(&rest[1..=end]), end + 2))
            }
            _ => {
                const SIGNS: [&str; 17] = [
                    "<=", ">=", "==", "!=", "&&", "||", "<", ">", "=", "!", "+", "-", "*", "/", "(", ")", ",",
                ];
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
                let sign = sign.ok_or_else(|| {
                    self.fault(format!("`{}` has no meaning here", rest.chars().next().unwrap_or(' ')))
                })?;
                Ok((Token::Sign(&rest[..sign.len()]), sign.len()))
            }
        }
    }
}

fn joined(one: Part, sign: Sign, other: Part) -> Result<Part, Fault> {
    let at = one.at;
    let (one, other) = (one.into_sum()?, other.into_sum()?);
    Ok(Part { at, is: Is::Sum(Sum::Both(Box::new(one), sign, Box::new(other))) })
}
