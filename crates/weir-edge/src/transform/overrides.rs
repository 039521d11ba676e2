//! Fields that override the method of a request: applications that clients reach by POST alone read them
//! (`X-HTTP-Method-Override: DELETE`). Pure; it must not decide where a request goes.

use http::{HeaderMap, HeaderName, Method};
use weir_policy::is_safe;

/// Fields that name another method than the request's own, and nothing else. They go through with unsafe
/// methods, past the cache; with others they go nowhere.
pub const METHOD_OVERRIDES: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
];

/// What fields say of a request's method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Overridden {
    /// Nothing that an origin is told.
    No,
    /// An application may take it for a request of this method.
    By(Method),
    /// They name two methods, or none.
    Unclear,
}

/// Reads what overrides the method of a request, without regard to case, as applications do.
pub(crate) fn overridden(method: &Method, headers: &HeaderMap) -> Overridden {
    if is_safe(method) {
        return Overridden::No;
    }
    let mut found = Overridden::No;
    for value in METHOD_OVERRIDES.iter().flat_map(|name| headers.get_all(name)) {
        let said = value.as_bytes().trim_ascii().to_ascii_uppercase();
        if said.is_empty() {
            continue;
        }
        found = match (Method::from_bytes(&said), found) {
            (Ok(said), Overridden::No) => Overridden::By(said),
            (Ok(said), Overridden::By(before)) if said == before => Overridden::By(before),
            _ => return Overridden::Unclear,
        };
    }
    found
}
