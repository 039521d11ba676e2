//! Maps, compiled: the text of a request becomes what its first rule says. A look-up takes time linear in the
//! length of the text. Must not know where the text comes from.

use super::address::canonical;
use super::text::{check_field_text, check_map_name, parse};
use super::{nginx, text_value};
use ipnet::IpNet;
use regex::bytes::{Regex, RegexBuilder};
use std::{collections::HashMap, fmt, net::IpAddr, str::FromStr};
use weir_policy::value::{Part, Scope, Value, What};

/// The most bytes that a compiled expression may take.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// What a map looks at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MapOf(pub Value);

text_value!(MapOf, "weir-map-of", "a text with [placeholders](#placeholders): `{header.User-Agent}`");

impl FromStr for MapOf {
    type Err = String;

    fn from_str(text: &str) -> Result<MapOf, String> {
        let value = parse(text, Scope::Map)?;
        match value.constant() {
            None => Ok(MapOf(value)),
            Some(_) => {
                Err(format!("`{text}` is the same for all requests: write a placeholder, as `{{host}}`"))
            }
        }
    }
}

impl fmt::Display for MapOf {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

impl MapOf {
    /// Whether it is an address, so that patterns are networks.
    pub(super) fn is_address(&self) -> bool {
        matches!(self.0.parts(), [Part::Of(only)] if only.what == What::ClientAddress && !only.is_filtered())
    }

    /// Whether its text depends on nothing but the client's address, which no client chooses.
    pub(crate) fn is_of_client(&self) -> bool {
        self.0.placeholders().all(|placeholder| placeholder.what == What::ClientAddress)
    }
}

/// A condition on what a map gives: its name alone (it gives something), or `NAME=pattern`; `*` is any text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MapMatch {
    /// The map.
    pub name: String,
    /// What its result must be; `None` if it need only give one.
    pub result: Option<String>,
}

text_value!(
    MapMatch,
    "weir-map-match",
    "a map that must give something: `robot`, or a result where `*` is any text: `device=phone`, `place=eu-*`"
);

impl FromStr for MapMatch {
    type Err = String;

    fn from_str(text: &str) -> Result<MapMatch, String> {
        let (name, result) = match text.split_once('=') {
            Some((name, result)) => (name, Some(result)),
            None => (text, None),
        };
        check_map_name(name)?;
        result.map_or(Ok(()), check_result)?;
        Ok(MapMatch { name: name.to_owned(), result: result.map(str::to_owned) })
    }
}

impl fmt::Display for MapMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.result {
            None => out.write_str(&self.name),
            Some(result) => write!(out, "{}={result}", self.name),
        }
    }
}

/// Checks the pattern of a rule; `of` is what its map looks at, where that is known.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_pattern(pattern: &str, of: Option<&MapOf>) -> Result<(), String> {
    // What is no expression may be an address, as far as is known.
    match of {
        Some(of) => Pattern::parse(pattern, of.is_address()).map(drop),
        None => Pattern::parse(pattern, false).map(drop),
    }
}

/// The expression that was probably meant, where a whole text has stars as a glob has.
pub(crate) fn glob_meant(pattern: &str) -> Option<String> {
    if pattern.starts_with('~') || !pattern.contains('*') {
        return None;
    }
    let pieces: Vec<String> = pattern.split('*').map(regex::escape).collect();
    Some(format!("~^{}$", pieces.join(".*")))
}

/// Checks what a rule gives.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_result(text: &str) -> Result<(), String> {
    check_field_text(text)
}

#[cfg(test)]
thread_local! {
    /// How many expressions were compiled on this thread.
    pub(crate) static COMPILED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A network, or one address; `None` where it is neither.
pub(super) fn network(text: &str) -> Option<IpNet> {
    let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network.ok().map(canonical)
}

enum Pattern {
    Exact(String),
    Network(IpNet),
    Regex(Regex),
}

impl Pattern {
    fn parse(text: &str, is_address: bool) -> Result<Pattern, String> {
        if is_address {
            return network(text).map(Pattern::Network).ok_or_else(|| {
                format!("`{text}` is not an address or a network: `192.0.2.0/24`, `2001:db8::/32`")
            });
        }
        let (regex, ignores_case) = match (text.strip_prefix("~*"), text.strip_prefix('~')) {
            (Some(regex), _) => (regex, true),
            (None, Some(regex)) => (regex, false),
            (None, None) => return Ok(Pattern::Exact(text.to_owned())),
        };
        #[cfg(test)]
        COMPILED.with(|count| count.set(count.get() + 1));
        let built = RegexBuilder::new(regex)
            .unicode(false)
            .case_insensitive(ignores_case)
            .size_limit(REGEX_BYTES_MAX)
            .build();
        built.map(Pattern::Regex).map_err(|error| nginx::regex_error(&error))
    }
}

/// A map, compiled.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// What it looks at.
    pub of: Value,
    exact: HashMap<Vec<u8>, String>,
    networks: Vec<(IpNet, String)>,
    expressions: Vec<(Regex, String)>,
    default: Option<String>,
}

impl Mapping {
    /// Compiles a map whose rules were checked; others are left out.
    pub fn compile(of: &MapOf, rules: &[Vec<String>], default: Option<&String>) -> Mapping {
        let mut mapping = Mapping {
            of: of.0.clone(),
            exact: HashMap::new(),
            networks: Vec::new(),
            expressions: Vec::new(),
            default: default.cloned(),
        };
        for rule in rules {
            let [pattern, result] = rule.as_slice() else { continue };
            match Pattern::parse(pattern, of.is_address()) {
                Ok(Pattern::Exact(text)) => {
                    mapping.exact.entry(text.into_bytes()).or_insert_with(|| result.clone());
                }
                Ok(Pattern::Network(network)) => mapping.networks.push((network, result.clone())),
                Ok(Pattern::Regex(regex)) => mapping.expressions.push((regex, result.clone())),
                Err(_) => {}
            }
        }
        mapping
    }

    /// All that a text can become, each once; `None` stands for nothing.
    pub fn results(&self) -> Vec<Option<&str>> {
        let rules = self.exact.values().chain(self.networks.iter().map(|(_, result)| result));
        let rules = rules.chain(self.expressions.iter().map(|(_, result)| result));
        let mut all: Vec<Option<&str>> = rules.map(|result| Some(result.as_str())).collect();
        all.push(self.default.as_deref());
        all.sort_unstable();
        all.dedup();
        all
    }

    /// What a text becomes.
    pub fn find(&self, text: &[u8]) -> Option<&str> {
        let exact = || self.exact.get(text);
        let network = || {
            let address: IpAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
            self.networks.iter().find(|(network, _)| network.contains(&address)).map(|(_, result)| result)
        };
        let expression =
            || self.expressions.iter().find(|(regex, _)| regex.is_match(text)).map(|(_, result)| result);
        let found = match self.networks.is_empty() {
            true => exact().or_else(expression),
            false => network(),
        };
        found.or(self.default.as_ref()).map(String::as_str)
    }
}
