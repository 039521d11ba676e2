//! What a request may have on a route, where that differs from `[limits]`. It must not read content.

use http::StatusCode;
use weir_config::model::RouteLimits;
use weir_front::ContentLimits;
use weir_policy::RequestView;

use crate::transform::request::CLIENT_CERT;

/// What a route says of the requests that it takes.
#[derive(Debug)]
pub(crate) struct Limits {
    body_bytes_max: Option<u64>,
    body_rate_min: Option<u64>,
    head_bytes_max: Option<u64>,
    fields_max: Option<usize>,
}

/// Why a head is refused, as the codec would say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnfitHead {
    pub(crate) status: StatusCode,
    pub(crate) word: &'static str,
}

impl Limits {
    /// None where nothing differs.
    pub(super) fn compile(given: &RouteLimits) -> Option<Box<Limits>> {
        let limits = Limits {
            body_bytes_max: given.body.map(|size| size.0),
            body_rate_min: given.body_rate.map(|size| size.0),
            head_bytes_max: given.head.map(|size| size.0),
            fields_max: given.fields.map(|fields| fields as usize),
        };
        (*given != RouteLimits::default()).then(|| Box::new(limits))
    }

    /// The limits of content; `all` are those of requests to other routes.
    pub(crate) fn content(&self, all: ContentLimits) -> ContentLimits {
        ContentLimits {
            bytes_max: self.body_bytes_max.unwrap_or(all.bytes_max),
            rate_min: self.body_rate_min.unwrap_or(all.rate_min),
        }
    }

    /// Whether a head is too large or has too many fields. It is measured as HTTP/1 would write it, without
    /// the fields of the connection, which are gone, and without what Weir has put there itself.
    pub(crate) fn refuse(&self, view: &RequestView<'_>) -> Option<UnfitHead> {
        const REST_OF_LINE: usize = "  HTTP/1.1\r\n\r\n".len();
        let unfit = |word| {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            Some(UnfitHead { status, word })
        };
        let own = || view.headers.iter().filter(|(name, _)| *name != CLIENT_CERT);
        if self.fields_max.is_some_and(|most| own().count() > most) {
            return unfit("too-many-fields");
        }
        let most = self.head_bytes_max?;
        let fields: usize =
            own().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len()).sum();
        let bytes = view.method.as_str().len() + view.path_and_query.len() + REST_OF_LINE + fields;
        if bytes as u64 > most { unfit("head-too-large") } else { None }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue, Method};
    use weir_config::value::Size;

    use super::*;

    fn check(given: &RouteLimits, head: &str, expected: Option<&str>) {
        let mut lines = head.split("\r\n");
        let line: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let mut headers = HeaderMap::new();
        for field in lines.filter(|line| !line.is_empty()) {
            let (name, value) = field.split_once(": ").unwrap();
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        let method = Method::from_bytes(line[0].as_bytes()).unwrap();
        let view = RequestView {
            method: &method,
            scheme: "http",
            host: "a.example",
            path_and_query: line[1],
            headers: &headers,
            has_body: false,
            is_trusted: false,
        };
        let found = Limits::compile(given).and_then(|limits| limits.refuse(&view));
        assert_eq!(found.map(|unfit| unfit.word), expected, "{given:?} {head}");
    }

    #[test]
    fn a_head_is_measured_as_it_is_written() {
        let head = "GET /a?b HTTP/1.1\r\nhost: a.example\r\nx-a: 1\r\nx-a: 2\r\n\r\n";
        let bytes = |bytes: usize| RouteLimits { head: Some(Size(bytes as u64)), ..RouteLimits::default() };
        check(&bytes(head.len()), head, None);
        check(&bytes(head.len() - 1), head, Some("head-too-large"));
        let fields = |fields| RouteLimits { fields: Some(fields), ..RouteLimits::default() };
        check(&fields(3), head, None);
        check(&fields(2), head, Some("too-many-fields"));
        check(&RouteLimits::default(), head, None);
        let certificate = format!("GET / HTTP/1.1\r\nhost: a\r\n{CLIENT_CERT}: :aaaa:\r\n\r\n");
        check(&fields(1), &certificate, None);
    }
}
