//! Warnings about which clients a route answers, by `allow` and `deny`.

use crate::resolve::ResolvedRoute;
use crate::value::TrustedProxy;

/// The warning about one route.
pub(super) fn of_route(route: &ResolvedRoute) -> Option<(&'static [&'static str], String)> {
    let access = &route.access;
    let is_denied = |client: &TrustedProxy| access.deny.iter().any(|denied| has(denied, client));
    match access.allow.as_deref() {
        Some([]) => Some((&["allow"], "`allow` is empty: no client gets an answer".to_owned())),
        Some(allow) if allow.iter().all(is_denied) => {
            Some((&["deny"], "`deny` has all that `allow` has: no client gets an answer".to_owned()))
        }
        Some(allow) => allow.iter().find(|client| is_denied(client)).map(|client| {
            let sentence = format!("`allow` has `{client}`, and `deny` has it as well: it gets no answer");
            (&["deny"][..], sentence)
        }),
        None => {
            let all = ["0.0.0.0/0", "::/0"].map(|all| all.parse().map(TrustedProxy::Net));
            let is_all = all.iter().all(|all| all.as_ref().is_ok_and(is_denied));
            is_all.then(|| (&["deny"][..], "`deny` has every address: no client gets an answer".to_owned()))
        }
    }
}

/// Whether all clients of `inner` are clients of `outer`.
fn has(outer: &TrustedProxy, inner: &TrustedProxy) -> bool {
    match (outer, inner) {
        (TrustedProxy::Net(outer), TrustedProxy::Net(inner)) => outer.contains(inner),
        (TrustedProxy::Unix, TrustedProxy::Unix) => true,
        _ => false,
    }
}
