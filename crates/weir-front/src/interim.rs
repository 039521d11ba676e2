//! Interim responses (1xx) on their way to a client. They are hints, of which an origin may send many: a
//! request gets so much of them, and one that its client does not take now is dropped. Nothing waits for
//! them. It must not decide which fields they have.

use http::HeaderMap;

/// The most bytes of interim responses that a request gets.
const BYTES_MAX: usize = 4 << 10;
/// What a status line takes, and a field beside its name and value.
const LINE_BYTES: usize = 32;
const FIELD_BYTES: usize = 4;

/// What a request has got of interim responses.
#[derive(Debug, Default)]
pub(crate) struct Interims {
    bytes: usize,
}

impl Interims {
    /// Counts one, where there is room for it.
    pub(crate) fn take(&mut self, headers: &HeaderMap) -> bool {
        let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES);
        let bytes = self.bytes + LINE_BYTES + fields.sum::<usize>();
        let has_room = bytes <= BYTES_MAX;
        if has_room {
            self.bytes = bytes;
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_request_gets_so_many_bytes_of_them() {
        let mut headers = HeaderMap::new();
        headers.insert("link", HeaderValue::from_str(&"x".repeat(1000)).unwrap());
        let mut interims = Interims::default();
        assert_eq!((0..10).filter(|_| interims.take(&headers)).count(), 3);
        // A shorter one still has room.
        assert!(interims.take(&HeaderMap::new()));
        headers.insert("link", HeaderValue::from_str(&"x".repeat(BYTES_MAX)).unwrap());
        assert!(!Interims::default().take(&headers));
    }
}
