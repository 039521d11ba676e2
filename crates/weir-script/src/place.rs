//! The path of a request as servers may read it, in one spelling, so that a script can compare it. It must
//! not guess: a path that servers read differently has no place.

/// The path, decoded once and without what changes nothing: `//`, `.`, `..`, `;…` and a slash at the end.
/// `None` where it is ambiguous.
pub(crate) fn place(path: &[u8]) -> Option<String> {
    let inside = path.strip_prefix(b"/")?;
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for part in inside.split(|byte| *byte == b'/') {
        let named = part.split(|byte| *byte == b';').next().unwrap_or_default();
        let part = decoded(named)?;
        match part.as_slice() {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let mut place = Vec::with_capacity(path.len());
    for part in &parts {
        place.push(b'/');
        place.extend_from_slice(part);
    }
    String::from_utf8(if place.is_empty() { b"/".to_vec() } else { place }).ok()
}

/// A part of a path. What stands encoded in it must mean nothing to a path, nor be encoded again.
fn decoded(part: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(part.len());
    let mut rest = part;
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = if byte == b'%' {
            let (digits, after) = after.split_first_chunk::<2>()?;
            let byte = digit(digits[0])? << 4 | digit(digits[1])?;
            if matches!(byte, b'/' | b';' | b'?' | b'#' | b'%') {
                return None;
            }
            (byte, after)
        } else {
            (byte, after)
        };
        if byte == b'\\' || byte.is_ascii_control() {
            return None;
        }
        out.push(byte);
        rest = after;
    }
    Some(out)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn spellings_of_one_path_are_one_place() {
        for path in [
            "/login",
            "//login",
            "/login/",
            "/login//",
            "/%6cogin",
            "/%6Cogin",
            "/./login",
            "/a/../login",
            "/a/%2e%2e/login",
            "/../login",
            "/login;jsessionid=1",
            "/a/..;x/login/.",
        ] {
            assert_eq!(place(path.as_bytes()).as_deref(), Some("/login"), "{path}");
        }
        assert_eq!(place(b"/").as_deref(), Some("/"));
        assert_eq!(place(b"/a/..").as_deref(), Some("/"));
        assert_eq!(place("/Caf%c3%a9/ b".as_bytes()).as_deref(), Some("/Café/ b"));
    }

    #[test]
    fn what_servers_read_differently_is_no_place() {
        let paths = [
            "*",
            "",
            "login",
            "/%2flogin",
            "/a%2f..%2flogin",
            "/%256cogin",
            "/login%00",
            "/login%3bx",
            "/login%3f",
            "/%",
            "/%6",
            "/%zz",
            "/a\\login",
            "/a%5clogin",
            "/%ff",
        ];
        for path in paths {
            assert_eq!(place(path.as_bytes()), None, "{path}");
        }
    }
}
