//! Promises of cookies by name, for any rule and any Cookie or Set-Cookie field: no panic; what is left has
//! no name that the rule takes out, however an origin reads it; a second time changes nothing; flags leave
//! names and values as they are.

use http::{HeaderMap, HeaderValue, header};
use weir_policy::cookies::CookieRule;
use weir_policy::set_cookie::{Flag, FlagRule, set_flags};

/// Reads a line with `keep` or `drop` and names, and fields, a line each.
pub fn cookies(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let words = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let mut words = words.split_whitespace();
    let is_keep = words.next() == Some("keep");
    let names: Vec<String> = words.take(6).map(|name| name.chars().take(20).collect()).collect();
    let rule = if is_keep { CookieRule::Keep(names.clone()) } else { CookieRule::Drop(names.clone()) };
    let mut request = HeaderMap::new();
    let mut response = HeaderMap::new();
    for value in lines.take(20).filter_map(|line| HeaderValue::from_bytes(line.trim_ascii()).ok()) {
        request.append(header::COOKIE, value.clone());
        response.append(header::SET_COOKIE, value);
    }
    left(&rule, &names, &mut request);
    flagged(names, &response);
}

fn left(rule: &CookieRule, names: &[String], request: &mut HeaderMap) {
    let dropped = rule.dropped(request).len();
    match rule.apply(request) {
        Some(left) => left.put(request),
        None => assert_eq!(dropped, 0, "{request:?}"),
    }
    assert_eq!(rule.apply(request), None, "{request:?}");
    assert!(request.get_all(header::COOKIE).iter().count() <= 1 || names.is_empty());
    let is_out = |name: &[u8]| match rule {
        CookieRule::All => false,
        CookieRule::Keep(names) => !names.iter().any(|pattern| fits(pattern.as_bytes(), name)),
        CookieRule::Drop(names) => {
            names.iter().any(|pattern| fits(&folded(pattern.as_bytes()), &folded(name)))
        }
    };
    for field in request.get_all(header::COOKIE) {
        for found in [plainly(field.as_bytes()), at_every_end(field.as_bytes()), quoted(field.as_bytes())] {
            for name in found.into_iter().filter(|name| !name.is_empty()) {
                assert!(!is_out(&name), "{rule:?} leaves {} in {field:?}", name.escape_ascii());
            }
        }
    }
}

/// The names between `;` and `=`, decoded.
fn plainly(field: &[u8]) -> Vec<Vec<u8>> {
    field.split(|byte| *byte == b';').map(|pair| decoded(name_of(pair).trim_ascii())).collect()
}

/// The names of an origin that ends cookies at `;`, `,`, quotes and blanks as well.
fn at_every_end(field: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for pair in field.split(|byte| *byte == b';') {
        let Some(at) = pair.iter().position(|byte| *byte == b'=') else { continue };
        found.push(pair[..at].trim_ascii().to_vec());
        let value = &pair[at + 1..];
        let value = value.strip_prefix(b"\"").unwrap_or(value);
        let is_end = |byte: &u8| matches!(byte, b',' | b'"') || byte.is_ascii_whitespace();
        let pieces = value.split(is_end).skip(1).filter(|piece| piece.contains(&b'='));
        found.extend(pieces.map(|piece| name_of(piece).to_vec()));
    }
    found
}

/// The names of an origin that reads quoted values as a whole, `;` in them included.
fn quoted(field: &[u8]) -> Vec<Vec<u8>> {
    let (mut found, mut rest) = (Vec::new(), field);
    while let Some(at) = rest.iter().position(|byte| *byte == b'=') {
        let name = rest[..at].rsplit(|byte| *byte == b';').next().unwrap_or_default();
        found.push(name.trim_ascii().to_vec());
        rest = &rest[at + 1..];
        let closed = rest.strip_prefix(b"\"").and_then(|value| {
            let end = value.iter().position(|byte| *byte == b'"')?;
            Some(&value[end + 1..])
        });
        let after = closed.unwrap_or(rest);
        let end = after.iter().position(|byte| *byte == b';').map_or(after.len(), |end| end + 1);
        rest = &after[end..];
    }
    found
}

fn name_of(pair: &[u8]) -> &[u8] {
    pair.split(|byte| *byte == b'=').next().unwrap_or_default()
}

fn decoded(name: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < name.len() {
        let code = name.get(at + 1..at + 3).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| name[at] == b'%');
        out.push(code.unwrap_or(name[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    out
}

fn folded(name: &[u8]) -> Vec<u8> {
    name.iter().map(|byte| if *byte == b'.' { b'_' } else { byte.to_ascii_lowercase() }).collect()
}

/// Whether a name matches, where `*` is any run of bytes.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    for byte in pattern {
        let before = reached.clone();
        for at in 0..=name.len() {
            reached[at] = match byte {
                b'*' => before[at] || (at > 0 && reached[at - 1]),
                byte => at > 0 && before[at - 1] && name[at - 1] == *byte,
            };
        }
    }
    reached[name.len()]
}

fn flagged(names: Vec<String>, given: &HeaderMap) {
    let add = vec![Flag::Secure, Flag::SameSiteLax];
    let rules = [FlagRule { cookies: names, add, remove: vec!["HttpOnly"] }];
    let mut response = given.clone();
    set_flags(&rules, &mut response);
    let once = response.clone();
    set_flags(&rules, &mut response);
    assert_eq!(response, once);
    let pairs = |headers: &HeaderMap| -> Vec<Vec<u8>> {
        let lines = headers.get_all(header::SET_COOKIE).iter();
        lines.map(|line| plain_pair(line.as_bytes()).to_vec()).collect()
    };
    assert_eq!(pairs(given), pairs(&response));
    for (before, after) in given.get_all(header::SET_COOKIE).iter().zip(response.get_all(header::SET_COOKIE))
    {
        if before != after {
            let names: Vec<Vec<u8>> = after
                .as_bytes()
                .split(|byte| *byte == b';')
                .skip(1)
                .map(|part| name_of(part).trim_ascii().to_vec())
                .collect();
            let count = |wanted: &[u8]| names.iter().filter(|name| name.eq_ignore_ascii_case(wanted)).count();
            assert_eq!((count(b"secure"), count(b"samesite")), (1, 1), "{after:?}");
        }
    }
}

fn plain_pair(line: &[u8]) -> &[u8] {
    line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end()
}
