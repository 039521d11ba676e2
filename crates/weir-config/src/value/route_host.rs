//! The hosts that a route is for: names, globs and expressions. Must not choose a site.

use super::{HostPattern, text_value};
use regex::bytes::{Regex, RegexBuilder};
use std::{fmt, str::FromStr};
use weir_policy::glob;

/// The most bytes that a compiled expression may take.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// A host of a route, in small letters and without a port.
#[derive(Debug, Clone)]
pub enum RouteHost {
    /// A name, or a glob in which `*` is any text.
    Glob(String),
    /// An expression that is looked for in the name.
    Regex(Regex),
}

text_value!(
    RouteHost,
    "weir-route-host",
    "a host, where `*` is any text, or an expression behind `~`: `m.example.com`, `*.shop.test`, \
     `~^shop[0-9]+\\.test$`; letters may be small or large"
);

impl RouteHost {
    /// Whether it is this host: in small letters, without a port.
    pub fn fits(&self, host: &str) -> bool {
        match self {
            RouteHost::Glob(glob) => glob::fits(glob, host.as_bytes()),
            RouteHost::Regex(regex) => regex.is_match(host.as_bytes()),
        }
    }

    /// Whether a site with this host may have it. An expression may have any that it does not name itself.
    pub(crate) fn is_below(&self, site: &HostPattern) -> bool {
        match (self, site) {
            (_, HostPattern::Exact(name)) => self.fits(name),
            (RouteHost::Glob(glob), HostPattern::Below(suffix)) => glob::overlap(glob, &format!("*{suffix}")),
            _ => true,
        }
    }
}

/// By their texts.
impl PartialEq for RouteHost {
    fn eq(&self, other: &RouteHost) -> bool {
        match (self, other) {
            (RouteHost::Glob(one), RouteHost::Glob(other)) => one == other,
            (RouteHost::Regex(one), RouteHost::Regex(other)) => one.as_str() == other.as_str(),
            _ => false,
        }
    }
}

impl Eq for RouteHost {}

impl FromStr for RouteHost {
    type Err = String;

    fn from_str(text: &str) -> Result<RouteHost, String> {
        if let Some(regex) = text.strip_prefix('~') {
            let regex = regex.strip_prefix('*').unwrap_or(regex);
            let built = RegexBuilder::new(regex)
                .unicode(false)
                .case_insensitive(true)
                .size_limit(REGEX_BYTES_MAX)
                .build();
            return built.map(RouteHost::Regex).map_err(|error| {
                let message = error.to_string();
                let last = message.lines().last().unwrap_or_default();
                format!("not a regular expression: {}", last.trim_start_matches("error: "))
            });
        }
        if text.chars().all(|c| c == '*') {
            return Err("this is every host of the site: leave `hosts` out".into());
        }
        if let Some((host, port)) = text.rsplit_once(':')
            && !port.ends_with(']')
            && port.chars().all(|c| c.is_ascii_digit())
        {
            return Err(format!("a host has no port here: write `hosts = [\"{host}\"]` and `port = {port}`"));
        }
        // A star may stand for any part of a name.
        text.replace('*', "x").parse::<HostPattern>()?;
        let name = text.strip_suffix('.').unwrap_or(text);
        Ok(RouteHost::Glob(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for RouteHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteHost::Glob(glob) => out.write_str(glob),
            RouteHost::Regex(regex) => write!(out, "~{regex}"),
        }
    }
}
