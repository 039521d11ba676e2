//! Which fields belong to one connection only (RFC 9110 §7.6.1) or must not be stored (RFC 9111 §3.1).

use http::{HeaderMap, HeaderName, header};
use smallvec::SmallVec;

/// Whether a field belongs to one connection only, whatever Connection says: those of RFC 9110 §7.6.1 and of
/// proxies themselves (RFC 9111 §3.1).
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "te"
            | "transfer-encoding"
            | "upgrade"
            | "proxy-authenticate"
            | "proxy-authentication-info"
            | "proxy-authorization"
            | "trailer"
    )
}

/// Removes the fields of one connection: the fixed list, and every field that Connection names. The wire
/// refuses what Connection may not name; here Connection cannot remove fields that frame or key a message.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    // Most heads have at most one of them. One pass costs less than a search for each name.
    let mut gone: SmallVec<[HeaderName; 4]> =
        headers.keys().filter(|name| is_hop_by_hop(name)).cloned().collect();
    if gone.contains(&header::CONNECTION) {
        let lines = headers.get_all(header::CONNECTION).iter();
        let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        gone.extend(names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()));
    }
    for name in &gone {
        headers.remove(name);
    }
}

/// Removes from `out` the fields that the Connection of `headers` names.
pub fn strip_named_by(headers: &HeaderMap, out: &mut HeaderMap) {
    // Most clients name nothing but that.
    let lines = headers.get_all(header::CONNECTION).iter().filter(|line| !line.as_bytes().eq(b"keep-alive"));
    for name in lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')) {
        if let Ok(name) = HeaderName::from_bytes(name.trim_ascii()) {
            out.remove(name);
        }
    }
}

/// Removes the fields that Connection names beyond the fixed list. An origin does not see them, so they must
/// not decide a key or a variant. `Connection` itself stays.
pub fn strip_named(headers: &mut HeaderMap) {
    // What browsers send names nothing that would stay.
    let lines = headers.get_all(header::CONNECTION).iter().filter(|line| !line.as_bytes().eq(b"keep-alive"));
    let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let gone: SmallVec<[HeaderName; 4]> = names
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .filter(|name| !is_hop_by_hop(name) && headers.contains_key(name))
        .collect();
    for name in &gone {
        headers.remove(name);
    }
}

/// Whether two different names are the same to an origin behind CGI, which takes a hyphen for an underscore
/// (RFC 3875 §4.1.18), and to PHP, which takes a dot for one as well.
pub fn is_respelled(name: &HeaderName, other: &HeaderName) -> bool {
    name != other
        && name.as_str().len() == other.as_str().len()
        && name.as_str().bytes().map(hyphenated).eq(other.as_str().bytes().map(hyphenated))
}

/// The byte of a name in lower case as a hyphen, where it is neither letter nor digit: no server is known
/// that tells names apart by these bytes and makes variables of them.
fn hyphenated(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() { byte } else { b'-' }
}

/// The name that an origin may take a name for, where it has other marks than hyphens.
pub fn respelled(name: &HeaderName) -> Option<String> {
    let text = name.as_str();
    let is_odd = text.bytes().any(|byte| byte != b'-' && !byte.is_ascii_alphanumeric());
    is_odd.then(|| text.bytes().map(|byte| char::from(hyphenated(byte))).collect())
}

/// Whether a stored field goes into a 304 (RFC 9110 §15.4.5). Fields that describe the missing body do not.
pub fn is_in_304(name: &HeaderName) -> bool {
    const OF_THE_BODY: [HeaderName; 7] = [
        header::CONTENT_ENCODING,
        header::CONTENT_LANGUAGE,
        header::CONTENT_LENGTH,
        header::CONTENT_RANGE,
        header::CONTENT_TYPE,
        HeaderName::from_static("content-md5"),
        HeaderName::from_static("content-digest"),
    ];
    !OF_THE_BODY.contains(name)
}
