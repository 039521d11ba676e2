//! Addresses: listeners, trusted networks, origins, and the host names of sites. Must not look a name up.

use super::text_value;
use crate::nearest::nearest;
use ipnet::{IpNet, Ipv4Net};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

/// Where Weir listens: an address and port, or a unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// An IPv4 or IPv6 address with its port.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix {
        /// Its path.
        path: PathBuf,
        /// The mode of its file; none: 0660.
        mode: Option<u32>,
    },
}

text_value!(
    ListenAddress,
    "weir-listen",
    "an address with a port, or a unix socket: `0.0.0.0:80`, `[::]:80`, `unix:/run/weir/http.sock`, \
     `unix:/run/weir/http.sock?mode=0600`"
);

impl ListenAddress {
    /// Whether it is the same place as another, whatever its mode.
    pub fn is_same_place(&self, other: &ListenAddress) -> bool {
        match (self, other) {
            (ListenAddress::Tcp(one), ListenAddress::Tcp(other)) => one == other,
            (ListenAddress::Unix { path: one, .. }, ListenAddress::Unix { path: other, .. }) => one == other,
            _ => false,
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenAddress, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let (path, mode) = match path.split_once("?mode=") {
                Some((path, mode)) => (path, Some(unix_mode(mode)?)),
                None => (path, None),
            };
            return Ok(ListenAddress::Unix { path: unix_path(path)?, mode });
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(ListenAddress::Tcp(address));
        }
        if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Err(format!("address without a port: did you mean `{}`?", SocketAddr::new(ip, 8080)));
        }
        if let Some(port) = text.strip_prefix(':').or_else(|| text.strip_prefix("*:")).or(Some(text))
            && port.parse::<u16>().is_ok()
        {
            return Err(format!(
                "a port without an address: write `127.0.0.1:{port}` for this machine, `0.0.0.0:{port}` or \
                 `[::]:{port}` for all"
            ));
        }
        if let Some(port) = text.strip_prefix("localhost:") {
            return Err(format!("a listener needs an address, not a name: did you mean `127.0.0.1:{port}`?"));
        }
        Err(format!(
            "`{text}` is not an address to listen on: write `127.0.0.1:8080`, `[::1]:8080` or `unix:/path`"
        ))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => write!(out, "{address}"),
            ListenAddress::Unix { path, mode: None } => write!(out, "unix:{}", path.display()),
            ListenAddress::Unix { path, mode: Some(mode) } => {
                write!(out, "unix:{}?mode={mode:04o}", path.display())
            }
        }
    }
}

/// A peer whose forwarding fields Weir trusts: a network, one address, or every peer on a unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrustedProxy {
    /// A network of addresses.
    Net(IpNet),
    /// Peers on a unix socket.
    Unix,
}

text_value!(
    TrustedProxy,
    "weir-trusted-proxy",
    "a network in CIDR notation, an address, or `unix`: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.7`"
);

impl FromStr for TrustedProxy {
    type Err = String;

    fn from_str(text: &str) -> Result<TrustedProxy, String> {
        if text == "unix" {
            return Ok(TrustedProxy::Unix);
        }
        if let Ok(net) = text.parse::<IpNet>() {
            if net.trunc() != net {
                return Err(format!(
                    "`{text}` has bits beyond its prefix length: did you mean `{}`?",
                    net.trunc()
                ));
            }
            return Ok(TrustedProxy::Net(canonical(net)));
        }
        match text.parse::<IpAddr>() {
            Ok(ip) => Ok(TrustedProxy::Net(IpNet::from(ip.to_canonical()))),
            Err(_) => Err(format!(
                "`{text}` is not a network: write CIDR such as `10.0.0.0/8`, an address, or `unix`"
            )),
        }
    }
}

/// A network as clients are compared with it: one of IPv4 addresses that are written as IPv6 ones
/// (`::ffff:10.0.0.0/104`, RFC 4291 §2.5.5.2) is that of the IPv4 addresses.
pub(super) fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else { return network };
    let v4 = v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(96));
    v4.and_then(|(address, length)| Ipv4Net::new(address, length).ok()).map_or(network, IpNet::V4)
}

impl fmt::Display for TrustedProxy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrustedProxy::Net(net) => write!(out, "{net}"),
            TrustedProxy::Unix => out.write_str("unix"),
        }
    }
}

/// How Weir talks to an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OriginScheme {
    /// HTTP over TCP.
    Http,
    /// HTTP over TLS.
    Https,
    /// HTTP over a unix socket.
    Unix,
}

/// An origin: `http://host[:port]`, `https://host[:port]` or `unix:/path`. It has no path of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OriginUrl {
    /// How Weir talks to it.
    pub scheme: OriginScheme,
    /// A DNS name or an address without brackets; for a unix socket its path.
    pub host: String,
    /// The port; 0 for a unix socket.
    pub port: u16,
}

text_value!(
    OriginUrl,
    "weir-origin",
    "an origin: `http://10.0.0.7:8080`, `https://www.example.com`, `unix:/run/app.sock`"
);

/// A name server: an address, with a port where it is not 53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nameserver(pub SocketAddr);

text_value!(Nameserver, "weir-nameserver", "a name server: `192.0.2.53`, `[2001:db8::53]:5353`");

impl FromStr for Nameserver {
    type Err = String;

    fn from_str(text: &str) -> Result<Nameserver, String> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Nameserver(SocketAddr::new(ip, 53)));
        }
        let is_fine = |address: &SocketAddr| address.port() != 0;
        let address = text.parse().ok().filter(is_fine).map(Nameserver);
        address.ok_or_else(|| format!("`{text}` is no address: write `192.0.2.53` or `192.0.2.53:5353`"))
    }
}

impl fmt::Display for Nameserver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.port() == 53 { self.0.ip().fmt(out) } else { self.0.fmt(out) }
    }
}

impl OriginUrl {
    /// The DNS name, if the origin is not an address or a socket.
    pub fn dns_name(&self) -> Option<&str> {
        match self.scheme {
            OriginScheme::Unix => None,
            _ if self.host.parse::<IpAddr>().is_ok() => None,
            _ => Some(&self.host),
        }
    }

    /// Whether it is the name of a service (RFC 2782), whose addresses and ports are in SRV records.
    pub(crate) fn is_service(&self) -> bool {
        let mut labels = self.dns_name().unwrap_or_default().split('.');
        let mut is_marked = || labels.next().is_some_and(|label| label.len() > 1 && label.starts_with('_'));
        is_marked() && is_marked()
    }

    /// The authority for the Host field: the name with the port where it is not the scheme's default; none
    /// for a socket.
    pub fn authority(&self) -> Option<String> {
        let default_port = match self.scheme {
            OriginScheme::Http => 80,
            OriginScheme::Https => 443,
            OriginScheme::Unix => return None,
        };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        Some(if self.port == default_port { host } else { format!("{host}:{}", self.port) })
    }
}

impl FromStr for OriginUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<OriginUrl, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let host = unix_path(path)?.to_string_lossy().into_owned();
            return Ok(OriginUrl { scheme: OriginScheme::Unix, host, port: 0 });
        }
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let (scheme, default_port, rest) = if lower.starts_with("https://") {
            (OriginScheme::Https, 443, &text[8..])
        } else if lower.starts_with("http://") {
            (OriginScheme::Http, 80, &text[7..])
        } else if let Some((scheme, _)) = text.split_once("://") {
            let near = nearest(scheme, ["http", "https"].into_iter());
            let help = near.map(|near| format!("did you mean `{near}`?"));
            let help = help.unwrap_or("write `http`, `https` or `unix:/path`".into());
            return Err(format!("unknown scheme `{scheme}`: {help}"));
        } else {
            return Err(format!("origin without a scheme: did you mean `http://{text}`?"));
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            return Err(format!(
                "an origin has no path, the request's is sent to it: write `{}://{authority}`",
                lower.split(':').next().unwrap_or("http")
            ));
        }
        if rest.contains('@') {
            return Err(
                "an origin has no user name: set an `Authorization` field in `request_headers`".into()
            );
        }
        let (host, port) = host_and_port(rest)?;
        Ok(OriginUrl { scheme, host, port: port.unwrap_or(default_port) })
    }
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            OriginScheme::Http => "http",
            OriginScheme::Https => "https",
            OriginScheme::Unix => return write!(out, "unix:{}", self.host),
        };
        write!(out, "{scheme}://{}", self.authority().unwrap_or_default())
    }
}

/// Splits an authority into its host (lower case, without brackets) and port.
pub(super) fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("missing `]` after the IPv6 address")?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| format!("`{host}` is not an IPv6 address"))?;
            match after.strip_prefix(':') {
                None if !after.is_empty() => {
                    return Err(format!("`{after}` is not a port: it follows a `:`"));
                }
                port => (host, port),
            }
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(format!("an IPv6 address needs brackets: did you mean `[{text}]`?"));
            }
            Some((host, port)) => (check_name(host)?, Some(port)),
            None => (check_name(text)?, None),
        },
    };
    let port = match port {
        None => None,
        Some(port) => {
            let number = port.parse::<u16>().ok().filter(|number| *number > 0 && !port.starts_with('+'));
            Some(number.ok_or_else(|| format!("`{port}` is not a port: write 1 to 65535"))?)
        }
    };
    Ok((host.to_ascii_lowercase(), port))
}

/// Refuses what cannot be a DNS name (RFC 1123 §2.1, with the underscore that is in use).
pub(super) fn check_name(name: &str) -> Result<&str, String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        return Err("the host name is missing".into());
    }
    if name.len() > 253 {
        return Err("a host name has at most 253 characters".into());
    }
    for label in name.split('.') {
        if label.is_empty() || label.len() > 63 {
            return Err(format!("`{name}` is not a host name: each part has 1 to 63 characters"));
        }
        if let Some(bad) = label.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-' && *c != '_') {
            let help = if bad.is_ascii() { "" } else { ": write it in its `xn--` form" };
            return Err(format!("`{bad}` is not allowed in a host name{help}"));
        }
    }
    Ok(name)
}

/// Which hosts a site answers for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// One name or address, lower case, without a port; IPv6 in brackets.
    Exact(String),
    /// All names below this one; kept without the `*`, so with the leading dot: `.example.com`.
    Below(String),
    /// Every host that no other site names.
    Default,
}

text_value!(
    HostPattern,
    "weir-host-pattern",
    "a host name, `*.` and a name for all names below it, or `*` for every other host"
);

impl HostPattern {
    /// Whether it is this host: in small letters, without a port.
    pub fn fits(&self, host: &str) -> bool {
        match self {
            HostPattern::Exact(name) => name == host,
            HostPattern::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
            HostPattern::Default => true,
        }
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<HostPattern, String> {
        if text == "*" {
            return Ok(HostPattern::Default);
        }
        if text.contains("://") {
            return Err("a host is a name without scheme and path, such as `www.example.com`".into());
        }
        if let Some(rest) = text.strip_prefix("*.") {
            let name = check_name(rest)?;
            return Ok(HostPattern::Below(format!(".{}", name.to_ascii_lowercase())));
        }
        if text.contains('*') {
            return Err("`*` is allowed alone or as the first part of a host: `*.example.com`".into());
        }
        let (host, port) = host_and_port(text)?;
        if port.is_some() {
            return Err("a site's host has no port: the port does not choose the site".into());
        }
        Ok(HostPattern::Exact(if host.contains(':') { format!("[{host}]") } else { host }))
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => out.write_str(name),
            HostPattern::Below(suffix) => write!(out, "*{suffix}"),
            HostPattern::Default => out.write_str("*"),
        }
    }
}

/// The Host that Weir sends to the origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum HostRule {
    /// The client's.
    #[default]
    Client,
    /// The origin's own name. Weir rewrites `Location` fields that name the origin to the client's host.
    Origin,
    /// Always this authority. Weir rewrites `Location` fields that name it to the client's host.
    Fixed(String),
}

text_value!(
    HostRule,
    "weir-host-rule",
    "`client` for the client's Host, `origin` for the origin's own name, or a fixed `name[:port]`"
);

impl FromStr for HostRule {
    type Err = String;

    fn from_str(text: &str) -> Result<HostRule, String> {
        match text {
            "client" => Ok(HostRule::Client),
            "origin" => Ok(HostRule::Origin),
            _ => {
                let (host, port) = host_and_port(text)?;
                let host = if host.contains(':') { format!("[{host}]") } else { host };
                Ok(HostRule::Fixed(port.map_or(host.clone(), |port| format!("{host}:{port}"))))
            }
        }
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            HostRule::Client => "client",
            HostRule::Origin => "origin",
            HostRule::Fixed(authority) => authority,
        })
    }
}

/// The path of a unix socket: absolute, and short enough for `sockaddr_un`.
pub(super) fn unix_path(path: &str) -> Result<PathBuf, String> {
    if !path.starts_with('/') {
        return Err(format!(
            "the path of a unix socket is absolute: `unix:/{}`",
            path.trim_start_matches("./")
        ));
    }
    if path.len() > 103 {
        return Err("the path of a unix socket has at most 103 bytes".into());
    }
    if let Some(bad) = path.chars().find(|letter| letter.is_control()) {
        return Err(format!("{bad:?} is not allowed in the path of a unix socket"));
    }
    Ok(PathBuf::from(path))
}

/// The mode of a file: octal digits.
fn unix_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && !text.starts_with('+'));
    mode.ok_or_else(|| format!("`{text}` is not a file mode: write octal digits such as `mode=0660`"))
}
