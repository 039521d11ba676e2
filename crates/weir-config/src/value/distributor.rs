//! Where a distributor is, and how long its answers are used again. Must not accept a name: to look one up
//! takes longer than to ask.

use super::{Duration, text_value};
use crate::nearest::nearest;
use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

/// Where a distributor is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DistributorUrl {
    /// It takes datagrams.
    Udp(SocketAddr),
    /// It takes connections.
    Tcp(SocketAddr),
    /// It takes connections to a socket in the file system.
    Unix(PathBuf),
}

text_value!(
    DistributorUrl,
    "weir-distributor",
    "a distributor: `udp://10.0.0.5:10010`, `tcp://[2001:db8::1]:10010`, `unix:/run/d.sock`"
);

impl FromStr for DistributorUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<DistributorUrl, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return super::address::unix_path(path).map(DistributorUrl::Unix);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("a distributor without a scheme: did you mean `udp://{text}`?"));
        };
        if !["udp", "tcp"].contains(&scheme) {
            let near = nearest(scheme, ["udp", "tcp", "unix"].into_iter());
            let help = near.map_or("write `udp`, `tcp` or `unix:/path`".to_owned(), |near| {
                format!("did you mean `{near}`?")
            });
            return Err(format!("unknown scheme `{scheme}`: {help}"));
        }
        let address = rest.strip_suffix('/').unwrap_or(rest).parse::<SocketAddr>();
        let address = address.ok().filter(|address| address.port() != 0).ok_or_else(|| {
            format!("`{rest}` is no IP address with a port: write `{scheme}://10.0.0.5:10010`")
        })?;
        Ok(if scheme == "udp" { DistributorUrl::Udp(address) } else { DistributorUrl::Tcp(address) })
    }
}

impl fmt::Display for DistributorUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DistributorUrl::Udp(address) => write!(out, "udp://{address}"),
            DistributorUrl::Tcp(address) => write!(out, "tcp://{address}"),
            DistributorUrl::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// How long an answer is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeepAnswer {
    /// For the session.
    Session,
    /// For so long.
    For(Duration),
}

text_value!(KeepAnswer, "weir-keep-answer", "`session`, or a time with its unit: `5s`");

impl FromStr for KeepAnswer {
    type Err = String;

    fn from_str(text: &str) -> Result<KeepAnswer, String> {
        if text == "session" {
            return Ok(KeepAnswer::Session);
        }
        match text.parse::<Duration>() {
            Ok(time) if time.0.is_zero() => Err("`keep` is zero: leave it out".to_owned()),
            Ok(time) => Ok(KeepAnswer::For(time)),
            Err(error) if text.starts_with(|c: char| c.is_ascii_digit()) => Err(error),
            Err(_) => Err(match nearest(text, ["session"].into_iter()) {
                Some(near) => format!("`{text}` is not known: did you mean `{near}`?"),
                None => format!("`{text}` is not known: write `session`, or a time such as `5s`"),
            }),
        }
    }
}

impl fmt::Display for KeepAnswer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeepAnswer::Session => out.write_str("session"),
            KeepAnswer::For(time) => time.fmt(out),
        }
    }
}

/// Checks the values of this file by their formats. An unknown format accepts every text.
pub(super) fn check_format(format: &str, text: &str) -> Result<(), String> {
    match format {
        "weir-distributor" => text.parse::<DistributorUrl>().map(drop),
        "weir-keep-answer" => text.parse::<KeepAnswer>().map(drop),
        _ => Ok(()),
    }
}
