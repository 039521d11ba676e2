//! Promises of `rewrite`, for any rule and any path: no panic; what the origin is asked for is visible ASCII,
//! begins as the rule begins, and has no dot segment; what a rule has made of a path is mapped back to that
//! path.

use http::Method;
use weir_config::ResolvedRewrite;
use weir_config::model::Rewrite;
use weir_policy::RequestView;

use super::*;
use crate::values::{RouteWords, Unasked};

/// Reads lines: a glob, or `~` and an expression; the target of the rule; what a client asks for; fields of
/// the origin's answer.
pub fn rewriting(data: &[u8]) {
    let mut lines =
        data.split(|byte| *byte == b'\n').map(|line| std::str::from_utf8(line).unwrap_or_default());
    let (Some(from), Some(to), Some(asked)) = (lines.next(), lines.next(), lines.next()) else { return };
    let Some(rule) = rule(from, to) else { return };
    let is_target =
        asked.starts_with('/') && asked.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let headers = HeaderMap::new();
    let view = RequestView {
        method: &Method::GET,
        scheme: "https",
        host: "shop.example",
        path_and_query: if is_target { asked } else { "/" },
        headers: &headers,
        has_body: false,
        is_trusted: false,
    };
    let words = RouteWords { name: "", upstream: "", capturing: None, maps: None };
    let known = OfRequest { view, site: "", route: words, beside: &Unasked };
    let rewrites = Rewrites { rules: vec![rule], back: ResolvedBack::default() };
    if let Ok(Some(made)) = rewrites.apply(&known) {
        check(&rewrites, view.path(), from, &made.target);
    }
    said(&rewrites, lines);
}

fn rule(from: &str, to: &str) -> Option<ResolvedRewrite> {
    let (glob, regex) = match from.strip_prefix('~') {
        Some(regex) => (None, Some(regex.parse().ok()?)),
        None => (Some(from.parse().ok()?), None),
    };
    ResolvedRewrite::of(&Rewrite { from: glob, regex, to: to.parse().ok()? })
}

fn check(rewrites: &Rewrites, path: &str, from: &str, made: &str) {
    assert!(made.bytes().all(|byte| byte.is_ascii_graphic()), "{}", made.escape_debug());
    let there = made.split('?').next().unwrap_or_default();
    assert!(!has_dot_segment(there) && !has_dot_segment(path), "{path} became {made}");
    let Some(rule) = rewrites.rules.first() else { return };
    if let Some(Part::Text(text)) = rule.to.parts().first() {
        let begins = text.split('?').next().unwrap_or_default();
        assert!(there.starts_with(begins), "{path} became {made}, by {}", rule.text);
    }
    if rule.back.is_none() {
        return;
    }
    let way = way(rule.back.as_ref());
    let back = way.url(there, &BackBy::Rewrite).map(|back| path_of(&back).to_owned());
    // What begins with two slashes names a host. Of several stars there may be more than one way back.
    if let (1, false) = (rule.from.count(), there.starts_with("//")) {
        // A path that the rule fits as it is read alone comes back as it is read.
        let read = read_path(path);
        let whence = if rule.from.find(path).is_some() { path } else { &*read };
        assert_eq!(back.as_deref(), Some(whence), "{path} became {there}, by {}", rule.text);
    }
    if let Some(back) = back {
        assert!(rule.from.find(&back).is_some(), "{there} became {back}, which is not {from}");
    }
}

/// The client's path, which has its host before it where it would look like another host.
fn path_of(back: &str) -> &str {
    let own = back.strip_prefix("https://shop.example");
    own.filter(|path| ["//", "/\\"].iter().any(|host| path.starts_with(host))).unwrap_or(back)
}

fn way<'a>(inverse: Option<&'a (Capturing, Value)>) -> Way<'a> {
    let origin = Some(Place { scheme: "http", authority: "app.internal" });
    let client = Place { scheme: "https", authority: "shop.example" };
    Way { inverse, ..Way::new(origin, client, Some(0)) }
}

/// Maps fields of an answer back: none is added, and none grows a line.
fn said<'a>(rewrites: &Rewrites, lines: impl Iterator<Item = &'a str>) {
    let mut headers = HeaderMap::new();
    for line in lines.take(20) {
        for name in [LOCATION, CONTENT_LOCATION, REFRESH, SET_COOKIE] {
            if let Ok(value) = HeaderValue::from_str(line) {
                headers.append(name, value);
            }
        }
    }
    let before = headers.len();
    let rule = rewrites.rules.first().and_then(|rule| rule.back.as_ref());
    rewrites.map_back(&mut headers, &way(rule));
    assert!(headers.len() <= before);
    for value in headers.values() {
        assert!(!value.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "{value:?}");
    }
}

#[cfg(test)]
mod tests;
