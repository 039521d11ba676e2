//! The head of a request as a question carries it: HTTP/1.1's, without what a distributor need not see.

use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, HOST};
use http::header::{PROXY_AUTHORIZATION, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName};

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct Head<'r> {
    /// The method.
    pub method: &'r str,
    /// The target in origin-form.
    pub target: &'r [u8],
    /// The host that the client asked for.
    pub host: &'r str,
    /// The fields.
    pub fields: &'r HeaderMap,
}

/// How much of a head was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printed {
    /// All of it.
    Whole,
    /// Only the fields that must be sent, or none.
    Reduced,
    /// Only the beginning of the target.
    Cut,
}

/// They frame a message that the distributor does not get.
const FRAMING: [HeaderName; 4] = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE];
/// They are sent only where the administrator names them.
const SECRET: [HeaderName; 3] = [COOKIE, AUTHORIZATION, PROXY_AUTHORIZATION];

impl Head<'_> {
    /// Prints at most `bytes_max` bytes behind what stands in `out`. What does not fit is left out: first all
    /// fields but `send`, then those as well, then the end of the target. It is at least 1 KiB.
    pub fn print(&self, send: &[HeaderName], bytes_max: usize, out: &mut Vec<u8>) -> Printed {
        let from = out.len();
        let is_wanted = |name: &HeaderName| send.contains(name) || !SECRET.contains(name);
        if self.print_with(&is_wanted, bytes_max, out) {
            return Printed::Whole;
        }
        let named = |name: &HeaderName| send.contains(name);
        let none = |_: &HeaderName| false;
        for is_wanted in [&named as &dyn Fn(&HeaderName) -> bool, &none] {
            out.truncate(from);
            if self.print_with(is_wanted, bytes_max, out) {
                return Printed::Reduced;
            }
        }
        out.truncate(from);
        let host = if self.host.len() > 255 { "" } else { self.host };
        let method = &self.method[..self.method.len().min(32)];
        let around = method.len() + host.len() + " ".len() + " HTTP/1.1\r\nhost: \r\n\r\n".len();
        let left = bytes_max.saturating_sub(around).min(self.target.len());
        let cut = Head { method, target: &self.target[..left], host, ..*self };
        cut.print_with(&|_| false, usize::MAX, out);
        Printed::Cut
    }

    /// Whether it fits.
    fn print_with(
        &self,
        is_wanted: &dyn Fn(&HeaderName) -> bool,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let from = out.len();
        for part in [self.method.as_bytes(), b" ", self.target, b" HTTP/1.1\r\n"] {
            out.extend_from_slice(part);
        }
        line(out, HOST.as_str(), self.host.as_bytes());
        for (name, value) in self.fields {
            if *name == HOST || FRAMING.contains(name) || !is_wanted(name) {
                continue;
            }
            line(out, name.as_str(), value.as_bytes());
            if out.len() - from > bytes_max {
                return false;
            }
        }
        out.extend_from_slice(b"\r\n");
        out.len() - from <= bytes_max
    }
}

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}
