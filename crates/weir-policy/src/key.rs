//! Keys: which requests mean the same object, and how much of the query goes to the origin. Paths are not
//! folded, and file endings have no rules. The edge has decided the authority.

mod beginnings;

use crate::cookies::cookies;
use crate::glob;
use crate::request::RequestView;
use crate::rules::{KeyRules, QueryOrder, QueryRule};
use crate::value::{Known, What};
use bytes::Bytes;
use std::borrow::Cow;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

pub use self::beginnings::{Beginning, Beginnings, beginnings};

/// The name of an object: a digest to look it up by, and the full key, which is compared on every hit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// xxh3-128 of `full`.
    pub digest: u128,
    /// `scheme://host/path?query` as forwarded, then a line for each keyed field, cookie and value.
    pub full: Bytes,
    /// The object's site, by [`site_hash`]; 0 for none. It is not a part of the name, since a host has one
    /// site.
    pub site: u64,
}

impl CacheKey {
    /// The key with the full form `full`, as [`write_key`] wrote it, and without a site.
    pub fn new(full: Bytes) -> CacheKey {
        CacheKey { digest: xxh3_128(&full), full, site: 0 }
    }

    /// The same key with a site.
    pub fn of_site(self, site: u64) -> CacheKey {
        CacheKey { site, ..self }
    }

    /// Its first line: `scheme://host/path?query` as forwarded.
    pub fn url(&self) -> &[u8] {
        self.full.split(|byte| *byte == b'\n').next().unwrap_or_default()
    }

    /// The digest that [`write_url`] returns for its URL. Hashes only if fields or cookies are in the key.
    pub fn url_digest(&self) -> u128 {
        let url = self.url();
        if url.len() == self.full.len() { self.digest } else { xxh3_128(url) }
    }
}

/// The hash of a site's name: xxh3-64, and never 0.
pub fn site_hash(name: &str) -> u64 {
    xxh3_64(name.as_bytes()).max(1)
}

/// Appends `scheme://host/path?query` of a request, as far as it counts, to `out`, and returns its digest. It
/// is the first line of all keys that the rules make of this URL.
///
/// A `target` that the origin is asked for takes the place of path and query, where the key has it.
pub fn write_url(
    rules: &KeyRules,
    request: &RequestView<'_>,
    target: Option<&str>,
    out: &mut Vec<u8>,
) -> u128 {
    let begin = out.len();
    out.extend_from_slice(request.scheme.as_bytes());
    out.extend_from_slice(b"://");
    out.extend_from_slice(request.host.as_bytes());
    match (target, &rules.query) {
        // What a rewriting has made of a path counts whole, with a query that came out of it.
        (Some(target), _) => out.extend_from_slice(target.as_bytes()),
        (None, QueryRule::Unkeyed(_)) => out.extend_from_slice(request.path().as_bytes()),
        (None, _) => out.extend_from_slice(forwarded(rules, request.path_and_query).as_bytes()),
    }
    xxh3_128(&out[begin..])
}

/// What a key has that a request itself does not say.
#[derive(Clone, Copy, Default)]
pub struct KeyParts<'a> {
    /// In place of path and query: what the origin is asked for.
    pub target: Option<&'a str>,
    /// What the placeholders of the rules stand for, where there are any.
    pub known: Option<&'a dyn Known>,
}

/// Appends the full key to `out` and returns its digest. Allocates nothing if the rules are the default ones
/// and `out` has room.
pub fn write_key(
    rules: &KeyRules,
    request: &RequestView<'_>,
    parts: KeyParts<'_>,
    out: &mut Vec<u8>,
) -> u128 {
    let begin = out.len();
    let digest = write_url(rules, request, parts.target, out);
    if rules.is_of_url() {
        return digest;
    }
    // Neither a field value nor a path can have a line break, so that no value can look like another line.
    for name in &rules.headers {
        write_lines(out, "", name.as_str(), b':', request.headers.get_all(name).iter().map(|v| v.as_bytes()));
    }
    for name in &rules.cookies {
        let values = cookies(request.headers).filter(|(found, _)| *found == name.as_bytes());
        write_lines(out, "cookie ", name, b'=', values.map(|(_, value)| value));
    }
    for placeholder in &rules.values {
        placeholder.write_key_lines(parts.known.unwrap_or(&Unknown), out);
    }
    // Other routes, whose targets nothing has rewritten, ask for their own.
    if let Some(origin) = rules.origin.as_ref().filter(|_| parts.target.is_some()) {
        write_lines(out, "origin ", origin, b'=', std::iter::empty());
    }
    xxh3_128(&out[begin..])
}

impl KeyRules {
    /// The line that ends the keys of rewritten targets, where these are told apart from other routes'.
    pub fn origin_line(&self) -> Option<Vec<u8>> {
        let origin = self.origin.as_ref()?;
        let mut line = Vec::new();
        write_lines(&mut line, "origin ", origin, b'=', std::iter::empty());
        Some(line)
    }
}

/// Nothing is known.
struct Unknown;

impl Known for Unknown {
    fn write(&self, _: &What, _: &mut Vec<u8>) -> bool {
        false
    }
}

/// A line for each value, or one with the name alone if the field is absent: absent and empty differ.
fn write_lines<'a>(
    out: &mut Vec<u8>,
    kind: &str,
    name: &str,
    mark: u8,
    values: impl Iterator<Item = &'a [u8]>,
) {
    let mut line = |value: Option<&[u8]>| {
        out.push(b'\n');
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(name.as_bytes());
        if let Some(value) = value {
            out.push(mark);
            out.extend_from_slice(value);
        }
    };
    let mut is_absent = true;
    for value in values {
        is_absent = false;
        line(Some(value));
    }
    if is_absent {
        line(None);
    }
}

/// Path and query as the origin gets them: without the parameters that the key leaves out, and in the key's
/// order. With [`QueryRule::Unkeyed`] it gets more than the key has.
pub fn forwarded<'a>(rules: &KeyRules, path_and_query: &'a str) -> Cow<'a, str> {
    if rules.query == QueryRule::All && rules.order == QueryOrder::Received {
        return Cow::Borrowed(path_and_query);
    }
    let Some(at) = path_and_query.find('?') else {
        return Cow::Borrowed(path_and_query);
    };
    let (path, query) = (&path_and_query[..at], &path_and_query[at + 1..]);
    let mut kept: Vec<&str> = query.split('&').filter(|parameter| is_kept(&rules.query, parameter)).collect();
    if rules.order == QueryOrder::Sorted {
        kept.sort_by_key(|parameter| name_of(parameter));
    }
    let mut joined = String::with_capacity(path_and_query.len());
    joined.push_str(path);
    for (index, parameter) in kept.iter().enumerate() {
        joined.push(if index == 0 { '?' } else { '&' });
        joined.push_str(parameter);
    }
    if joined == path_and_query { Cow::Borrowed(path_and_query) } else { Cow::Owned(joined) }
}

pub(crate) fn is_kept(rule: &QueryRule, parameter: &str) -> bool {
    let named = |patterns: &[String]| {
        patterns.iter().any(|pattern| glob::fits(pattern, name_of(parameter).as_bytes()))
    };
    match rule {
        QueryRule::All => true,
        QueryRule::None => false,
        QueryRule::Keep(patterns) => named(patterns),
        QueryRule::Drop(patterns) | QueryRule::Unkeyed(patterns) => !named(patterns),
    }
}

fn name_of(parameter: &str) -> &str {
    parameter.split('=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
