//! The byte classes and lists of the grammar (RFC 9110 section 5.6, RFC 9112 section 2).

const TCHAR: u8 = 1;
const HOST: u8 = 2;
const UPPER: u8 = 4;
const DOT: u8 = 8;
/// The class of no byte: a dot behind a dot becomes this.
const DOT_TWICE: u8 = DOT << 1;

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let tchars = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut index = 0;
    while index < tchars.len() {
        table[tchars[index] as usize] |= TCHAR;
        index += 1;
    }
    let hosts = b"-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    index = 0;
    while index < hosts.len() {
        table[hosts[index] as usize] |= HOST;
        index += 1;
    }
    let mut letter = b'A';
    while letter <= b'Z' {
        table[letter as usize] |= UPPER;
        letter += 1;
    }
    table[b'.' as usize] |= DOT;
    table
}

fn all(bytes: &[u8], class: u8) -> bool {
    bytes.iter().fold(class, |left, byte| left & CLASS[usize::from(*byte)]) == class
}

/// RFC 9110 section 5.6.2: `tchar`.
pub(crate) fn is_tchar(byte: u8) -> bool {
    CLASS[usize::from(byte)] & TCHAR != 0
}

/// RFC 9110 section 5.6.2: `token`, at least one `tchar`.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(bytes, TCHAR)
}

/// Whether all bytes may stand in a request target: visible ASCII (`VCHAR`), and no fragment.
pub(crate) fn is_target(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |so_far, byte| so_far & byte.is_ascii_graphic() & (*byte != b'#'))
}

/// Whether all bytes are visible ASCII (`VCHAR`).
pub(crate) fn is_visible(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |so_far, byte| so_far & byte.is_ascii_graphic())
}

/// The spelling of a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// In lower case, without a dot at its end.
    Normal,
    /// Otherwise.
    Other,
}

/// The spelling of a host name; `None` if it is not one. A host name has labels of letters, digits, `-` and
/// `_`, with one dot between them and at most one at the end. The sub-delims of RFC 3986 section 3.2.2 are
/// refused, since no resolvable name has them.
pub(crate) fn host_name(bytes: &[u8]) -> Option<Spelling> {
    let mut all = HOST;
    let mut any = 0;
    let mut before = DOT;
    for byte in bytes {
        let class = CLASS[usize::from(*byte)];
        all &= class;
        any |= class | (class & before & DOT) << 1;
        before = class;
    }
    if all & HOST == 0 || any & DOT_TWICE != 0 || bytes.is_empty() {
        return None;
    }
    Some(if any & UPPER == 0 && before & DOT == 0 { Spelling::Normal } else { Spelling::Other })
}

/// Optional whitespace: space or tab (RFC 9110 section 5.6.3).
pub(crate) fn is_ows(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// `bytes` without the optional whitespace around it.
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_ows(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_ows(*last)
    {
        bytes = rest;
    }
    bytes
}

/// The elements of a comma-separated list (RFC 9110 section 5.6.1), trimmed, empty ones included.
pub(crate) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim)
}

/// A decimal number of digits alone that fits into 63 bits. A sign, a space and more than 19 digits are
/// refused: `u64::from_str` takes a `+`, and some peers read signed 64 bits.
pub(crate) fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 19 {
        return None;
    }
    let mut number = 0_u64;
    for byte in bytes {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number * 10 + u64::from(byte - b'0');
    }
    i64::try_from(number).is_ok().then_some(number)
}
