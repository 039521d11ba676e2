//! Names of services (RFC 2782), as they are told from names of hosts. It must not ask DNS.

/// Whether it is the name of a service (RFC 2782), whose addresses are in SRV records.
pub fn is_service(host: &str) -> bool {
    let mut labels = host.split('.');
    let is_marked =
        |label: Option<&str>| label.is_some_and(|label| label.len() > 1 && label.starts_with('_'));
    is_marked(labels.next()) && is_marked(labels.next())
}

/// The name that a service belongs to, for TLS (RFC 6125 §6.2.1).
pub(crate) fn domain_of(host: &str) -> &str {
    if !is_service(host) {
        return host;
    }
    host.splitn(3, '.').nth(2).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_known_by_their_names() {
        assert!(
            is_service("_http._tcp.app.test") && !is_service("_http.app.test") && !is_service("app.test")
        );
        assert_eq!((domain_of("_http._tcp.app.test"), domain_of("app.test")), ("app.test", "app.test"));
    }
}
