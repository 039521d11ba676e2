//! Values by name in a text of pairs, as a Cookie field or a query has them. It must not decode anything.

use http::HeaderMap;
use http::header::COOKIE;

/// The values of the cookies of a name, in the order received.
pub(crate) fn cookies<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h [u8]> {
    headers.get_all(COOKIE).iter().flat_map(move |line| values(line.as_bytes(), b';', name))
}

/// The values of a name in `a=b;c=d`, in their order.
pub(crate) fn values<'t>(text: &'t [u8], between: u8, name: &str) -> impl Iterator<Item = &'t [u8]> {
    let pairs = text.split(move |byte| *byte == between).filter_map(pair);
    pairs.filter(move |(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
}

/// Name and value of a pair.
pub(crate) fn pair(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == b'=')?;
    Some((text[..at].trim_ascii(), text[at + 1..].trim_ascii()))
}
