//! Where metrics of origins are read: gmonds, and pages in Prometheus' text. Must not resolve a name.

use super::address::OriginScheme;
use super::{OriginUrl, text_value};
use crate::nearest::nearest;
use std::{fmt, net::IpAddr, str::FromStr};

/// The port at which gmond sends its values.
const GMOND_PORT: u16 = 8649;
/// What may stand for a part of the origin in a URL.
const PARTS: [&str; 3] = ["host", "port", "id"];

/// A gmond or gmetad: a host, with a port where it is not 8649.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gmond {
    /// A DNS name or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

text_value!(Gmond, "weir-gmond", "a gmond or gmetad: `10.0.0.5`, `monitor.example:8651`");

impl FromStr for Gmond {
    type Err = String;

    fn from_str(text: &str) -> Result<Gmond, String> {
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(format!("a gmond has no `{scheme}://`: write `host:{GMOND_PORT}`"));
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Gmond { host: ip.to_string(), port: GMOND_PORT });
        }
        // The rules for hosts and ports are those of origins.
        let url: OriginUrl = format!("http://{text}")
            .parse()
            .map_err(|_| format!("`{text}` is no gmond: write `10.0.0.5:{GMOND_PORT}` or a name"))?;
        let has_port =
            text.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
        Ok(Gmond { host: url.host, port: if has_port { url.port } else { GMOND_PORT } })
    }
}

impl fmt::Display for Gmond {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "[{}]:{}", self.host, self.port),
            false => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

/// A page in Prometheus' text, with `{host}`, `{port}` and `{id}` of the origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetricsUrl(String);

text_value!(
    MetricsUrl,
    "weir-metrics-url",
    "a page in Prometheus' text: `http://{host}:9100/metrics`; `{host}`, `{port}` and `{id}` are the origin's"
);

impl MetricsUrl {
    /// Whether each origin has a page of its own.
    pub fn is_each(&self) -> bool {
        self.0.contains('{')
    }

    /// The server and the target of an origin's page. `None` where it has no such part, or this is no URL.
    pub fn of(&self, part: impl Fn(&str) -> Option<String>) -> Option<(OriginUrl, String)> {
        let mut text = self.0.clone();
        for name in PARTS {
            let placeholder = format!("{{{name}}}");
            if text.contains(&placeholder) {
                text = text.replace(&placeholder, &part(name)?);
            }
        }
        split(&text).ok()
    }
}

fn split(text: &str) -> Result<(OriginUrl, String), String> {
    let start = text.find("://").map_or(0, |at| at + 3);
    let end = text[start..].find(['/', '?']).map_or(text.len(), |at| start + at);
    let (server, target) = text.split_at(end);
    let url: OriginUrl = server.parse()?;
    if url.scheme == OriginScheme::Unix {
        return Err("a page has an `http://` or `https://` URL".to_owned());
    }
    let is_visible = target.bytes().all(|byte| (0x21..0x7f).contains(&byte) && byte != b'#');
    if !is_visible {
        return Err(format!("`{target}` is no path of a URL"));
    }
    Ok((url, if target.starts_with('/') { target.to_owned() } else { format!("/{target}") }))
}

impl FromStr for MetricsUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<MetricsUrl, String> {
        let mut rest = text;
        while let Some((_, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else {
                return Err(format!("`{text}` has a `{{` that does not end"));
            };
            if !PARTS.contains(&name) {
                return Err(match nearest(name, PARTS.into_iter()) {
                    Some(near) => format!("unknown part `{{{name}}}`: did you mean `{{{near}}}`?"),
                    None => {
                        format!("unknown part `{{{name}}}`: there are `{{host}}`, `{{port}}` and `{{id}}`")
                    }
                });
            }
            rest = after;
        }
        let url = MetricsUrl(text.to_owned());
        let sample = text.replace("{host}", "host").replace("{port}", "80").replace("{id}", "id");
        split(&sample).map(|_| url)
    }
}

impl fmt::Display for MetricsUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Refuses what cannot be the name of `[metrics.NAME]`.
pub(super) fn check_source_name(text: &str) -> Result<(), String> {
    match text {
        "push" | "agent" => Err(format!(
            "`{text}` is the source of what {}: choose another name",
            match text {
                "push" => "operators push",
                _ => "HAProxy agents say",
            }
        )),
        _ => check_name(text),
    }
}

/// Refuses what cannot be a metric's name.
///
/// # Errors
/// A sentence.
pub fn check_name(text: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-/".contains(&byte);
    match text.len() {
        1..=128 if text.bytes().all(is_plain) => Ok(()),
        _ => Err(format!("`{text}` is no name: 1 to 128 letters, digits and any of `_.:-/`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gmond_has_a_host_and_a_port() {
        let rows = [
            ("10.0.0.5", Some("10.0.0.5:8649")),
            ("10.0.0.5:80", Some("10.0.0.5:80")),
            ("monitor.example", Some("monitor.example:8649")),
            ("[::1]:8651", Some("[::1]:8651")),
            ("::1", Some("[::1]:8649")),
            ("http://a", None),
            ("a:b", None),
            ("", None),
            ("a:0", None),
        ];
        for (text, expect) in rows {
            let gmond = text.parse::<Gmond>().ok().map(|gmond| gmond.to_string());
            assert_eq!(gmond.as_deref(), expect, "{text}");
        }
    }

    #[test]
    fn a_page_is_that_of_its_origin() {
        let part = |name: &str| (name != "id").then(|| format!("x{name}"));
        let of = |text: &str| {
            let (server, target) = text.parse::<MetricsUrl>().unwrap().of(part)?;
            Some(format!("{server} {target}"))
        };
        assert_eq!(of("http://{host}:9100/metrics").unwrap(), "http://xhost:9100 /metrics");
        assert_eq!(of("https://p.example?a={port}").unwrap(), "https://p.example /?a=xport");
        assert_eq!(of("http://{host}/{id}"), None);
        for wrong in
            ["{host}:9100", "unix:/a", "http://{hots}/", "http://a/b c", "http://a/{host", "http://a/#"]
        {
            assert!(wrong.parse::<MetricsUrl>().is_err(), "{wrong}");
        }
    }
}
