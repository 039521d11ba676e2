//! Whose a cookie is that a response sets: which lines no client gets, and which no other client than the one
//! that asked. Every way into a stored head and every way to a client asks here. It must not interpret a
//! value.

use crate::control::ResponseControl;
use crate::cookies::in_key;
use crate::glob;
use crate::rules::{CacheRules, SetCookie};
use crate::set_cookie::name_set;
use crate::targeted::effective;
use http::{HeaderMap, HeaderValue, StatusCode, header};

impl CacheRules {
    /// Whether a Set-Cookie line is taken out of responses: the route names it, or it has the name of a
    /// cookie of Weir's own.
    pub(crate) fn strips(&self, line: &HeaderValue) -> bool {
        self.is_named(line) || self.is_own(line)
    }

    /// Whether the route takes cookies of this name out.
    fn is_named(&self, line: &HeaderValue) -> bool {
        self.stripped_cookies.iter().any(|pattern| glob::fits(pattern, name_set(line)))
    }

    /// Whether a line sets a cookie that only Weir sets.
    fn is_own(&self, line: &HeaderValue) -> bool {
        !self.own_cookies.is_empty() && self.own_cookies.iter().any(|own| own.as_bytes() == name_sent(line))
    }

    /// Whether a line makes a session, or takes one away.
    fn makes_session(&self, line: &HeaderValue) -> bool {
        let session = self.session_cookie.as_ref();
        session.is_some_and(|session| session.as_bytes() == name_sent(line)) || self.is_own(line)
    }

    /// Whether a line is for the client that asked alone, whatever else is said of it: it makes a session, or
    /// it sets a cookie of the key.
    fn is_of_one(&self, line: &HeaderValue) -> bool {
        self.makes_session(line) || in_key(&self.key).any(|keyed| keyed.as_bytes() == name_sent(line))
    }

    /// Whether a response makes a session for the client that gets it, so that it is stored for nobody. Where
    /// the route takes the cookie out, it makes none.
    pub(crate) fn begins_session(&self, headers: &HeaderMap) -> bool {
        let may = self.session_cookie.is_some() || !self.own_cookies.is_empty();
        let is_left = self.set_cookie != SetCookie::Strip;
        let mut lines = headers.get_all(header::SET_COOKIE).iter();
        may && is_left && lines.any(|line| self.makes_session(line) && !self.is_named(line))
    }

    /// Takes out of a response the cookies that the rules name, and Weir's own, which no origin sets.
    pub fn strip_cookies(&self, headers: &mut HeaderMap) {
        if !self.stripped_cookies.is_empty() || !self.own_cookies.is_empty() {
            remove_lines(headers, |line| self.strips(line));
        }
    }

    /// Takes out of a response the cookies that are for one client alone. The rest may be stored.
    pub fn strip_cookies_of_one(&self, headers: &mut HeaderMap) {
        let knows_any = self.session_cookie.is_some() || in_key(&self.key).next().is_some();
        if knows_any || !self.own_cookies.is_empty() {
            remove_lines(headers, |line| self.is_of_one(line));
        }
    }

    /// Takes out of a response that is not stored what clients must not get that only waited for it.
    pub fn strip_for_waiting(&self, status: StatusCode, headers: &mut HeaderMap) {
        let control = effective(headers, status, self);
        self.strip_withheld(&control, headers);
        if self.set_cookie != SetCookie::Store {
            headers.remove(header::SET_COOKIE);
        }
        self.strip_cookies_of_one(headers);
    }

    /// Takes out the fields that the origin keeps from caches, and all cookies where the route wants that.
    pub(crate) fn strip_withheld(&self, control: &ResponseControl, headers: &mut HeaderMap) {
        for name in &control.withheld {
            headers.remove(name);
        }
        if self.set_cookie == SetCookie::Strip {
            headers.remove(header::SET_COOKIE);
        }
    }
}

/// The name under which a client sends the cookie of a line back. A cookie without a name is sent as its
/// value alone, which may look like another with one (RFC 6265bis §5.8.3).
fn name_sent(line: &HeaderValue) -> &[u8] {
    let name = name_set(line);
    if !name.is_empty() {
        return name;
    }
    let text = line.as_bytes().trim_ascii_start();
    let text = text.strip_prefix(b"=").unwrap_or(text);
    text.split(|byte| matches!(byte, b'=' | b';')).next().unwrap_or_default().trim_ascii()
}

/// Removes the Set-Cookie lines for which `is_gone` holds. The others keep their order.
fn remove_lines(headers: &mut HeaderMap, is_gone: impl Fn(&HeaderValue) -> bool) {
    if !headers.get_all(header::SET_COOKIE).iter().any(&is_gone) {
        return;
    }
    let lines = headers.get_all(header::SET_COOKIE).iter().filter(|line| !is_gone(line));
    let kept: Vec<HeaderValue> = lines.cloned().collect();
    headers.remove(header::SET_COOKIE);
    for line in kept {
        headers.append(header::SET_COOKIE, line);
    }
}

#[cfg(test)]
mod tests;
