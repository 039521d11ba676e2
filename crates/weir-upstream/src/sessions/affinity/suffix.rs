//! Session ids that end with the name of their origin: `0A4F33.node1`, in a cookie or as a parameter of the
//! path (`/shop;jsessionid=0A4F33.node1`), as Java and Apache have them. It must not know an origin.

/// The longest name of an origin, with an address behind its `id`.
pub const NODE_BYTES_MAX: usize = 128;

/// The origin's name in a session id: what follows its last dot. `None` where there is no name.
pub fn node(id: &[u8]) -> Option<&str> {
    let id = id.strip_prefix(b"\"").map_or(id, |inner| inner.strip_suffix(b"\"").unwrap_or(inner));
    let at = id.iter().rposition(|byte| *byte == b'.')?;
    let node = std::str::from_utf8(&id[at + 1..]).ok()?;
    is_node(node).then_some(node)
}

/// Whether an origin may have this name: letters, digits, `-` and `_`, at most 128 of them.
pub fn is_node(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=NODE_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

/// The value of a parameter in the path of a target (RFC 3986 §3.3), the last one of that name.
pub fn parameter<'t>(target: &'t str, name: &str) -> Option<&'t [u8]> {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    // Most paths have none.
    memchr::memchr(b';', path.as_bytes())?;
    let parameters = path.split('/').flat_map(|segment| segment.split(';').skip(1));
    let named = parameters.filter_map(|parameter| parameter.split_once('='));
    named.filter(|(found, _)| *found == name).last().map(|(_, value)| value.as_bytes())
}
