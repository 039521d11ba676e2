//! Cookies that a request loses once its route is known: those that the route takes out, and Weir's own. From
//! here on nobody sees them, but for what reads sessions.

use http::HeaderMap;
use http::header::COOKIE;
use weir_upstream::affinity::without;

use crate::exchange::Asked;
use crate::plan::Route;

/// Takes the cookies out of the request.
pub(crate) fn take(asked: &mut Asked<'_>, route: &Route) {
    let request = asked.request;
    let without_own = without_own(&request.headers, asked.running.plan.own_cookies());
    let left = route.rules.cookies.apply(without_own.as_ref().unwrap_or(&request.headers));
    if left.is_none() && without_own.is_none() {
        return;
    }
    let mut headers = without_own.unwrap_or_else(|| request.headers.clone());
    if let Some(left) = left {
        left.put(&mut headers);
    }
    asked.request = request.instead.get_or_init(|| Box::new(request.with_headers(headers)));
}

/// The fields without Weir's own cookies; `None` if they have none.
pub(crate) fn without_own(headers: &HeaderMap, own_cookies: &[String]) -> Option<HeaderMap> {
    let lines = without(headers, own_cookies)?;
    let mut left = headers.clone();
    left.remove(COOKIE);
    lines.into_iter().for_each(|line| _ = left.append(COOKIE, line));
    Some(left)
}
