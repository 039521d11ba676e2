//! Paths that origins are asked for in place of the client's, and what origins say of their own paths and
//! names, mapped back (`rewrite`, `back`). Nothing is decoded. Pure.

pub(super) mod outcomes;
pub(super) mod target;

use std::borrow::Cow;

use http::header::{CONTENT_LOCATION, LOCATION, REFRESH, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue};
use weir_config::value::{Captured, Capturing};
use weir_config::{BackBy, ResolvedBack, ResolvedRewrite, ResolvedRoute};
use weir_policy::value::{Known, Part, Style, Value, What};
use weir_policy::{has_dot_segment, read_path};

pub(crate) use self::target::DotSegment;
use self::target::finish;
use crate::transform::response::{self, Place, authority_of, of_client, without_dots};
use crate::values::OfRequest;

/// What a route says about paths.
#[derive(Debug)]
pub(super) struct Rewrites {
    pub(super) rules: Vec<ResolvedRewrite>,
    pub(super) back: ResolvedBack,
}

/// A target for the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rewritten {
    /// The rule, from 0.
    pub(crate) rule: usize,
    /// Path and query.
    pub(crate) target: String,
}

/// Captures first, then what else is known.
struct With<'a> {
    captured: Captured<'a>,
    others: &'a dyn Known,
}

impl Known for With<'_> {
    fn write(&self, what: &What, out: &mut Vec<u8>) -> bool {
        let What::Capture(number) = what else { return self.others.write(what, out) };
        let found = self.captured.get(*number);
        out.extend_from_slice(found.unwrap_or_default());
        found.is_some()
    }
}

impl Rewrites {
    /// Compiles what a route says; none where it says nothing.
    pub(super) fn compile(route: &ResolvedRoute) -> Option<Box<Rewrites>> {
        let back = route.back.clone()?;
        Some(Box::new(Rewrites { rules: route.rewrite.clone(), back }))
    }

    /// The target by the first rule that fits; none where no rule does. `known` has the query that the key
    /// leaves.
    ///
    /// # Errors
    /// The path, or what would become of it, has a dot segment.
    pub(super) fn apply(&self, known: &OfRequest<'_>) -> Result<Option<Rewritten>, DotSegment> {
        let path = known.view.path();
        let read = read_path(path);
        let Some((rule, captured)) = self.fitting(path, &read)? else { return Ok(None) };
        let to = &self.rules[rule].to;
        let target = to.render(&With { captured, others: known }, Style::Path);
        let query = known.view.path_and_query.split_once('?').map(|(_, query)| query);
        Ok(Some(Rewritten { rule, target: finish(to, target, query)? }))
    }

    /// The first rule that fits a path as it is read, and its captures: as the client has spelled them, where
    /// the rule fits that as well.
    ///
    /// # Errors
    /// A rule fits, and the path has a dot segment.
    pub(super) fn fitting<'p>(
        &self,
        path: &'p str,
        read: &'p str,
    ) -> Result<Option<(usize, Captured<'p>)>, DotSegment> {
        let fitting = |path| self.rules.iter().position(|rule| rule.from.find(path).is_some());
        let rule = fitting(read);
        if has_dot_segment(path) && (rule.is_some() || fitting(path).is_some()) {
            return Err(DotSegment);
        }
        let captured = |rule: usize| {
            let from = &self.rules[rule].from;
            Some((rule, from.find(path).or_else(|| from.find(read))?))
        };
        Ok(rule.and_then(captured))
    }

    /// Maps the fields of a response back.
    pub(super) fn map_back(&self, headers: &mut HeaderMap, way: &Way<'_>) {
        let way = &Way { inverse: way.rule.and_then(|rule| self.rules.get(rule)?.back.as_ref()), ..*way };
        for name in [LOCATION, CONTENT_LOCATION] {
            let Some(url) = headers.get(&name).and_then(|value| value.to_str().ok()) else { continue };
            if let Some(back) = way.url(url, &self.back.location) {
                put(headers, name, &back);
            }
        }
        if let Some(back) =
            headers.get(REFRESH).and_then(|value| refresh(value.to_str().ok()?, way, &self.back))
        {
            put(headers, REFRESH, &back);
        }
        if headers.contains_key(SET_COOKIE) {
            let cookies: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().cloned().collect();
            headers.remove(SET_COOKIE);
            for cookie in cookies {
                headers.append(SET_COOKIE, self.cookie(&cookie, way).unwrap_or(cookie));
            }
        }
    }

    /// A cookie with its `Path` and `Domain` mapped back; none where it stays as it is. Browsers refuse a
    /// cookie `__Host-` with another path than `/`, or with a domain (RFC 6265bis §4.1.3.2).
    fn cookie(&self, cookie: &HeaderValue, way: &Way<'_>) -> Option<HeaderValue> {
        let text = cookie.to_str().ok()?;
        let mut parts = text.split(';').map(str::to_owned);
        let mut out = parts.next()?;
        let prefix = out.trim_start().get(..HOST_PREFIX.len());
        if prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(HOST_PREFIX)) {
            return None;
        }
        for part in parts {
            out.push(';');
            let mapped = part.split_once('=').and_then(|(name, value)| {
                let value = value.trim();
                let mapped = match name.trim().to_ascii_lowercase().as_str() {
                    "path" => in_quotes(value, |path| way.cookie_path(path, &self.back.cookie_path)),
                    "domain" => way.domain(value, &self.back.cookie_domain),
                    _ => None,
                };
                mapped.map(|mapped| format!("{name}={mapped}"))
            });
            out.push_str(&mapped.unwrap_or(part));
        }
        HeaderValue::try_from(out).ok()
    }
}

fn put(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}

/// The beginning of a cookie's name that binds it to one host and to the path `/`.
const HOST_PREFIX: &str = "__Host-";

/// What becomes of a text, which some write in quotes; they stay.
fn in_quotes(text: &str, map: impl FnOnce(&str) -> Option<String>) -> Option<String> {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(inner) => map(inner).map(|mapped| format!("\"{}\"", mapped.replace('"', "%22"))),
        None => map(text),
    }
}

/// `5; url=/here`, as browsers read it (HTML, "shared declarative refresh steps").
fn refresh(text: &str, way: &Way<'_>, back: &ResolvedBack) -> Option<String> {
    let is_blank = |c: char| c.is_ascii_whitespace();
    let after = text.trim_start_matches(is_blank);
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if rest.len() == after.len() || !rest.starts_with(|c| matches!(c, ';' | ',') || is_blank(c)) {
        return None;
    }
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix([';', ',']).unwrap_or(rest).trim_start_matches(is_blank);
    let named = rest.get(..3).filter(|word| word.eq_ignore_ascii_case("url")).and_then(|_| {
        let value = rest[3..].trim_start_matches(is_blank).strip_prefix('=')?;
        Some(value.trim_start_matches(is_blank))
    });
    let value = named.unwrap_or(rest);
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let url = value.strip_prefix(['"', '\'']).unwrap_or(value);
    let head = &text[..text.len() - url.len()];
    let (url, tail) = url.split_at(quote.and_then(|quote| url.find(quote)).unwrap_or(url.len()));
    let mut mapped = way.url(Some(url.trim()).filter(|url| !url.is_empty())?, &back.location)?;
    match quote {
        Some('"') => mapped = mapped.replace('"', "%22"),
        Some(_) => mapped = mapped.replace('\'', "%27"),
        None => {}
    }
    Some(format!("{head}{mapped}{tail}"))
}

/// From where, to where.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    /// The name that the origin was sent, where it is not the client's.
    pub(crate) origin: Option<Place<'a>>,
    pub(crate) client: Place<'a>,
    /// The rule by which the path was rewritten.
    pub(crate) rule: Option<usize>,
    inverse: Option<&'a (Capturing, Value)>,
}

impl<'a> Way<'a> {
    pub(crate) fn new(origin: Option<Place<'a>>, client: Place<'a>, rule: Option<usize>) -> Way<'a> {
        Way { origin, client, rule, inverse: None }
    }

    /// A URL as the client has to ask for it; none where it stays as it is. Its dot segments are resolved
    /// first: behind another prefix they would lead out of it.
    fn url(&self, url: &str, by: &BackBy) -> Option<String> {
        let url = &*without_dots(url)?;
        match by {
            BackBy::Off => None,
            BackBy::Rules(rules) => self.url_by_hand(url, rules),
            BackBy::Rewrite => {
                let named = self.origin.and_then(|origin| response::back(url, origin, self.client));
                let now = named.as_deref().unwrap_or(url);
                let own = format!("{}://{}", self.client.scheme, self.client.authority);
                // A reference may begin with `//`: it has the scheme of the page (RFC 3986 §4.2).
                let relative = &own[self.client.scheme.len() + 1..];
                let is_own = |own: &&str| now.get(..own.len()).is_some_and(|it| it.eq_ignore_ascii_case(own));
                let own = [own.as_str(), relative].into_iter().find(is_own).unwrap_or_default();
                let (head, rest) = now.split_at(own.len());
                let is_path = rest.starts_with('/') && !(head.is_empty() && rest.starts_with("//"));
                let end = rest.find(['?', '#']).unwrap_or(rest.len());
                match self.path(&rest[..end]).filter(|_| is_path) {
                    Some(path) => {
                        let mapped = format!("{path}{}", &rest[end..]);
                        match head {
                            // The origin named no other host, so that what its path has must not.
                            "" => String::from_utf8(of_client(mapped.into_bytes(), self.client)).ok(),
                            _ => Some(format!("{head}{mapped}")),
                        }
                    }
                    None => named,
                }
            }
        }
    }

    /// A URL by hand. It names another host only where the rule does, or where the origin has named the same.
    fn url_by_hand(&self, url: &str, rules: &[(Capturing, Value)]) -> Option<String> {
        let (to, mapped) = self.fitting(url, rules)?;
        let keeps_host = || authority_of(url) == authority_of(&mapped);
        let is_meant = match to.parts().first() {
            Some(Part::Text(text)) => text.starts_with("//") || (url.starts_with("//") && keeps_host()),
            _ => keeps_host(),
        };
        match is_meant {
            true => Some(mapped),
            false => String::from_utf8(of_client(mapped.into_bytes(), self.client)).ok(),
        }
    }

    /// A path by the rule read backwards.
    fn path(&self, path: &str) -> Option<String> {
        let (from, to) = self.inverse?;
        let captured = from.find(path)?;
        let known = With { captured, others: self };
        let path = String::from_utf8(to.render(&known, Style::Path)).ok()?;
        // What a rule would make of `/a-../x` leads out of its prefix.
        matches!(without_dots(&path), Some(Cow::Borrowed(_))).then_some(path)
    }

    fn cookie_path(&self, path: &str, by: &BackBy) -> Option<String> {
        match by {
            BackBy::Off => None,
            BackBy::Rules(rules) => self.by_hand(path, rules),
            // The path `/app` is that of all below `/app/`.
            BackBy::Rewrite => self.path(path).or_else(|| {
                let below = self.path(&format!("{path}/"))?;
                Some(below.strip_suffix('/').filter(|short| !short.is_empty()).unwrap_or(&below).to_owned())
            }),
        }
    }

    fn domain(&self, domain: &str, by: &BackBy) -> Option<String> {
        let bare = |authority: &'a str| match authority.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => name,
            _ => authority,
        };
        match by {
            BackBy::Off => None,
            BackBy::Rules(rules) => self.by_hand(domain, rules),
            BackBy::Rewrite => {
                let origin = bare(self.origin?.authority);
                let is_origins = domain.strip_prefix('.').unwrap_or(domain).eq_ignore_ascii_case(origin);
                is_origins.then(|| bare(self.client.authority).to_owned())
            }
        }
    }

    fn by_hand(&self, text: &str, rules: &[(Capturing, Value)]) -> Option<String> {
        self.fitting(text, rules).map(|(_, mapped)| mapped)
    }

    /// The first rule that fits, and what it makes of a text.
    fn fitting<'r>(&self, text: &str, rules: &'r [(Capturing, Value)]) -> Option<(&'r Value, String)> {
        let (captured, to) = rules.iter().find_map(|(from, to)| Some((from.find(text)?, to)))?;
        let mapped = to.render(&With { captured, others: self }, Style::Url);
        Some((to, String::from_utf8(mapped).ok()?))
    }
}

/// The names that the client used.
impl Known for Way<'_> {
    fn write(&self, what: &What, out: &mut Vec<u8>) -> bool {
        let headers = HeaderMap::new();
        let view = weir_policy::RequestView {
            method: &http::Method::GET,
            scheme: self.client.scheme,
            host: self.client.authority,
            path_and_query: "/",
            headers: &headers,
            has_body: false,
            is_trusted: false,
        };
        weir_policy::value::of_request(&view, what, out).unwrap_or(false)
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
#[cfg(test)]
mod tests;
