//! Which rule of a map certainly takes every text that a later one would take. Texts are compared, and no
//! rule is compared with all others: a map may have tens of thousands.

use std::collections::{BTreeSet, HashMap};

use ipnet::IpNet;

use super::map::{MapOf, network};

/// The rules so far, each with what is kept of it.
#[derive(Debug)]
pub(crate) struct Earlier<T> {
    kept: Vec<T>,
    /// The first that takes everything.
    all: Option<usize>,
    /// Networks as they begin, by their length, each with the first rule that has it.
    networks: HashMap<IpNet, usize>,
    /// Expressions that are plain text, whose case counts,
    exact: Texts,
    /// and those whose case does not.
    folded: Texts,
}

/// Plain texts, each with its first rule.
#[derive(Debug, Default)]
struct Texts {
    first: HashMap<String, usize>,
    lengths: BTreeSet<usize>,
}

/// An expression as far as it is compared.
struct Expression {
    text: String,
    ignores_case: bool,
}

impl<T> Default for Earlier<T> {
    fn default() -> Earlier<T> {
        let (exact, folded) = (Texts::default(), Texts::default());
        Earlier { kept: Vec::new(), all: None, networks: HashMap::new(), exact, folded }
    }
}

impl<T> Earlier<T> {
    /// Adds a rule. Whole texts are looked for before expressions, wherever they stand: they take nothing.
    pub(crate) fn add(&mut self, of: &MapOf, text: &str, kept: T) {
        let number = self.kept.len();
        self.kept.push(kept);
        if of.is_address() {
            if let Some(network) = network(text) {
                self.networks.entry(network.trunc()).or_insert(number);
            }
            return;
        }
        let Some(expression) = Expression::read(text) else { return };
        if expression.takes_all() {
            self.all.get_or_insert(number);
        } else if expression.is_plain() {
            let texts = if expression.ignores_case { &mut self.folded } else { &mut self.exact };
            texts.lengths.insert(expression.text.len());
            texts.first.entry(expression.text).or_insert(number);
        }
    }

    /// What is kept of the first rule that takes all that this one would.
    pub(crate) fn covering(&self, of: &MapOf, text: &str) -> Option<&T> {
        let number = match of.is_address() {
            true => self.network(text),
            false => self.expression(text),
        };
        self.kept.get(number?)
    }

    fn network(&self, text: &str) -> Option<usize> {
        let network = network(text)?;
        let wider = (0..=network.prefix_len()).filter_map(|length| {
            let wider = IpNet::new(network.addr(), length).ok()?.trunc();
            self.networks.get(&wider).copied()
        });
        wider.min()
    }

    /// Expressions are compared only where both are plain text, or the first takes everything.
    fn expression(&self, text: &str) -> Option<usize> {
        let now = Expression::read(text)?;
        let plain = || {
            let folded = self.folded.within(&now.text.to_ascii_lowercase());
            let exact = (!now.ignores_case).then(|| self.exact.within(&now.text)).flatten();
            folded.into_iter().chain(exact).min()
        };
        let plain = now.is_plain().then(plain).flatten();
        self.all.into_iter().chain(plain).min()
    }
}

impl Texts {
    /// The first rule whose text stands in this one, which is ASCII.
    fn within(&self, text: &str) -> Option<usize> {
        let lengths = self.lengths.range(..=text.len());
        let pieces = lengths.flat_map(|length| (0..=text.len() - length).map(move |at| (at, at + length)));
        pieces.filter_map(|(from, to)| self.first.get(text.get(from..to)?)).min().copied()
    }
}

impl Expression {
    /// `None` for a whole text, and for what no expression may be.
    fn read(text: &str) -> Option<Expression> {
        let (bare, ignores_case) = match (text.strip_prefix("~*"), text.strip_prefix('~')) {
            (Some(bare), _) => (bare, true),
            (None, bare) => (bare?, false),
        };
        let text = if ignores_case { bare.to_ascii_lowercase() } else { bare.to_owned() };
        Some(Expression { text, ignores_case })
    }

    fn takes_all(&self) -> bool {
        ["", ".*", "^", "$", "^.*", ".*$", "^.*$"].contains(&self.text.as_str())
    }

    fn is_plain(&self) -> bool {
        self.text.chars().all(|c| c.is_ascii_alphanumeric() || " /_-%:;,".contains(c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by comparing each pair.
    fn compared(of: &MapOf, before: &str, now: &str) -> bool {
        if of.is_address() {
            return matches!((network(before), network(now)), (Some(a), Some(b)) if a.contains(&b));
        }
        let (Some(before), Some(now)) = (Expression::read(before), Expression::read(now)) else {
            return false;
        };
        let text = if before.ignores_case { now.text.to_ascii_lowercase() } else { now.text.clone() };
        let is_near = before.is_plain() && now.is_plain() && (before.ignores_case || !now.ignores_case);
        before.takes_all() || (is_near && text.contains(&before.text))
    }

    #[test]
    fn the_first_rule_that_takes_all_is_found() {
        let mut random = 1_u64;
        let mut below = |count: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % count
        };
        for _ in 0..2000 {
            let count = below(12);
            let mut text = |_| {
                let letters: String =
                    (0..below(4)).map(|_| ["a", "b", "A", "B"][below(4) as usize]).collect();
                format!(
                    "{}{letters}{}",
                    ["~", "~*", ""][below(3) as usize],
                    [".*", "", ""][below(3) as usize]
                )
            };
            let texts: Vec<String> = (0..count).map(&mut text).collect();
            let mut network = |_| format!("10.0.0.{}/{}", below(16) * 16, 24 + below(9));
            let networks: Vec<String> = (0..count).map(&mut network).collect();
            for (of, rules) in [("{header.Host}", texts), ("{client.address}", networks)] {
                let of: MapOf = of.parse().unwrap();
                let mut earlier = Earlier::default();
                for (number, now) in rules.iter().enumerate() {
                    let expect = rules[..number].iter().position(|before| compared(&of, before, now));
                    assert_eq!(earlier.covering(&of, now).copied(), expect, "{now} of {rules:?}");
                    earlier.add(&of, now, number);
                }
            }
        }
    }
}
