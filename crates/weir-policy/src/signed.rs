//! Requests whose credentials may cover their own fields: a signature in `Authorization` or in the query, as
//! object storages have them (AWS Signature Version 4 and its like). Their origin refuses such a request once
//! it was changed. Pure; it must not check a signature.

use crate::key::is_kept;
use crate::request::RequestView;
use crate::rules::KeyRules;
use crate::vary::accept_encoding;
use http::{HeaderName, StatusCode, header};

/// Parameters that hold a signature: of AWS, Google, Alibaba, Huawei, Volcano, Tencent; `Signature` is that
/// of AWS Version 2 and of CloudFront, `sig` that of Azure.
const SIGNATURES: [&str; 8] = [
    "x-amz-signature",
    "x-goog-signature",
    "x-oss-signature",
    "x-obs-signature",
    "x-tos-signature",
    "q-signature",
    "signature",
    "sig",
];

/// Parameters that stand beside a `Signature` or `sig` where it opens a storage: whose it is, or its end.
/// Others use these two names for what opens nothing.
const BESIDE: [&str; 6] =
    ["awsaccesskeyid", "googleaccessid", "ossaccesskeyid", "accesskeyid", "key-pair-id", "se"];

/// Parameters that say which fields a signature in the query covers.
const COVERED: [&str; 3] = ["x-amz-signedheaders", "x-goog-signedheaders", "x-tos-signedheaders"];

/// The fields of a request that a fill changes or leaves out.
const CHANGED: [HeaderName; 7] = [
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::ACCEPT_ENCODING,
];

/// Whether a request shows credentials to its origin: `Authorization`, or a signature in the query, which
/// opens what it is for until it ends. A parameter that the route withholds from the origin opens nothing.
pub(crate) fn has_credentials(request: &RequestView<'_>, rules: &KeyRules) -> bool {
    request.headers.contains_key(header::AUTHORIZATION) || opens(request, rules)
}

/// Whether the query has a signature that opens something.
pub(crate) fn opens(request: &RequestView<'_>, rules: &KeyRules) -> bool {
    let Some((_, query)) = request.path_and_query.split_once('?') else { return false };
    let parameters = query.split('&').filter(|pair| is_kept(&rules.query, pair));
    let names = parameters.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    let mut has_signature = false;
    let mut has_beside = false;
    for name in names {
        let is_of = |list: &[&str]| list.iter().any(|one| name.eq_ignore_ascii_case(one));
        if is_of(&SIGNATURES[..6]) {
            return true;
        }
        has_signature |= is_of(&SIGNATURES[6..]);
        has_beside |= is_of(&BESIDE);
    }
    has_signature && has_beside
}

/// Whether a signature may cover the fields of a request that a fill changes: it has `Authorization`, or a
/// signature in its query that does not say otherwise.
pub fn may_be_signed(request: &RequestView<'_>) -> bool {
    if request.headers.contains_key(header::AUTHORIZATION) {
        return true;
    }
    let Some((_, query)) = request.path_and_query.split_once('?') else { return false };
    let parameters = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let is_any = |name: &str, of: &[&str]| of.iter().any(|one| name.eq_ignore_ascii_case(one));
    if !parameters.clone().any(|(name, _)| is_any(name, &SIGNATURES)) {
        return false;
    }
    let mut covered = parameters.filter(|(name, _)| is_any(name, &COVERED)).peekable();
    // Names between `;`, which may be encoded; they have no other escape.
    let has_name = |list: &str, name: &HeaderName| list.to_ascii_lowercase().contains(name.as_str());
    covered.peek().is_none() || covered.any(|(_, list)| CHANGED.iter().any(|name| has_name(list, name)))
}

/// Whether a fill for all clients would ask otherwise than this request does, in a field that a signature may
/// cover. `Accept-Encoding` counts where the signature names it: most clients that send credentials have one
/// that a fill writes in another form, and no scheme covers it without saying so.
pub fn changes_fields(request: &RequestView<'_>) -> bool {
    let headers = request.headers;
    if CHANGED[..6].iter().any(|name| headers.contains_key(name)) {
        return true;
    }
    let lines = headers.get_all(header::ACCEPT_ENCODING);
    let is_other =
        || lines.iter().nth(1).is_some() || accept_encoding(headers).as_ref() != lines.iter().next();
    names_coding(request) && is_other()
}

/// Whether a signature names `Accept-Encoding` among the fields that it covers.
fn names_coding(request: &RequestView<'_>) -> bool {
    let is_named = |text: &[u8]| {
        let name = header::ACCEPT_ENCODING;
        let mut places = text.windows(name.as_str().len());
        places.any(|place| place.eq_ignore_ascii_case(name.as_str().as_bytes()))
    };
    let credentials = request.headers.get_all(header::AUTHORIZATION).iter();
    let query = request.path_and_query.split_once('?').map(|(_, query)| query).unwrap_or_default();
    credentials.map(|value| value.as_bytes()).chain([query.as_bytes()]).any(is_named)
}

/// Whether a response to a changed request may refuse its signature. Such a refusal says nothing of the
/// request as its client has sent it.
pub fn may_be_of_signature(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

#[cfg(test)]
mod tests;
