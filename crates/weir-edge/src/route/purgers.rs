//! Who may purge how much: by its address, by a secret in a field, or not at all. It must not know what is
//! asked for.

use http::{HeaderMap, HeaderName, HeaderValue};
use subtle::ConstantTimeEq;
use weir_config::{ResolvedPurge, ResolvedSite};
use weir_front::listen::{Peer, Trusted};
use weir_policy::is_respelled;

/// How much a client may purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rights {
    /// Nothing.
    Nothing,
    /// One URL at a time: a trusted proxy sends the request and names no client.
    OneUrl,
    /// Anything.
    Anything,
}

/// Who may purge, as a route has it.
#[derive(Debug)]
pub(crate) struct Purgers {
    allow: Trusted,
    key: Option<(HeaderName, HeaderValue)>,
    /// The fields of all secrets of the site: a sender adds its own to each request.
    hidden: Vec<HeaderName>,
    is_local: bool,
    /// Whether nobody may.
    is_empty: bool,
}

/// A request's client, with what it shows.
#[derive(Clone, Copy)]
pub(crate) struct Purger<'a> {
    pub(crate) client: Option<Peer>,
    /// Whether a trusted proxy sent the request and named no other client than a proxy.
    pub(crate) is_unnamed: bool,
    pub(crate) headers: &'a HeaderMap,
}

impl Purgers {
    pub(crate) fn compile(resolved: &ResolvedPurge, site: &ResolvedSite, allow: Trusted) -> Purgers {
        let keys = site.routes.iter().filter_map(|route| route.purge.key.as_ref());
        let mut hidden: Vec<HeaderName> = keys.map(|(name, _)| name.clone()).collect();
        hidden.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        hidden.dedup();
        Purgers {
            allow,
            hidden,
            key: resolved.key.clone(),
            is_local: resolved.is_local,
            is_empty: resolved.allow.is_empty() && resolved.key.is_none(),
        }
    }

    /// Whether nobody may purge.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// What a client may purge.
    pub(crate) fn rights(&self, purger: &Purger<'_>) -> Rights {
        if self.is_empty {
            return Rights::Nothing;
        }
        if self.key.as_ref().is_some_and(|(name, secret)| shows(purger.headers, name, secret)) {
            return Rights::Anything;
        }
        match purger.client.is_some_and(|client| self.allow.contains(&client)) {
            false => Rights::Nothing,
            true if purger.is_unnamed && !self.is_local => Rights::OneUrl,
            true => Rights::Anything,
        }
    }

    /// Removes the secrets of the site from the fields of a request, in every spelling.
    pub(crate) fn hide(&self, headers: &mut HeaderMap) {
        if self.hidden.is_empty() {
            return;
        }
        let is_hidden = |name: &&HeaderName| {
            self.hidden.iter().any(|hidden| *name == hidden || is_respelled(name, hidden))
        };
        let names: Vec<HeaderName> = headers.keys().filter(is_hidden).cloned().collect();
        for name in &names {
            headers.remove(name);
        }
    }
}

/// Whether a field has the secret. The time does not depend on how much of it is right.
fn shows(headers: &HeaderMap, name: &HeaderName, secret: &HeaderValue) -> bool {
    let is_same = |value: &HeaderValue| bool::from(value.as_bytes().ct_eq(secret.as_bytes()));
    headers.get_all(name).iter().any(is_same)
}
