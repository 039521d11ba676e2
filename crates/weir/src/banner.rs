//! What `weir run` prints at its start.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use weir_config::model::Listen;
use weir_config::value::{HostPattern, HostRule, ListenAddress};
use weir_config::{Action, Loaded};

use crate::build;
use crate::print::counted;

/// What Weir stands in front of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// One origin, named on the command line.
    Origin(String),
    /// The built-in demo origin, at this address.
    Demo(SocketAddr),
    /// A file.
    File(PathBuf),
}

/// The first line: `weir 0.1.0 (profile dist)  http://127.0.0.1:8080 -> https://www.example.com  (sends Host:
/// www.example.com)`.
pub(crate) fn first_line(loaded: &Loaded, before: &Before) -> String {
    let listeners: Vec<String> = loaded.config.listen.iter().map(url).collect();
    let mut line = format!("{}  {}", program(), listeners.join(", "));
    // Invariant: writing to a String cannot fail.
    match before {
        Before::Demo(_) => line.push_str(" -> the built-in demo origin"),
        Before::Origin(origin) => {
            let _ = write!(line, " -> {origin}");
            if let Some(host) = sent_host(loaded) {
                let _ = write!(line, "  (sends Host: {host})");
            }
        }
        Before::File(path) => {
            let sites = loaded.resolved();
            let routes: usize = sites.iter().map(|site| site.routes.len()).sum();
            let (sites, routes) = (counted(sites.len(), "site"), counted(routes, "route"));
            let _ = write!(line, "  {}: {sites}, {routes}", path.display());
        }
    }
    line.push('\n');
    line
}

/// Said in the demo of a program that is not the shipped one.
const NOT_SHIPPED: &str =
    "\n\x20 This program is built for its minutes, not for speed; `make dist` builds what is handed out.";

/// The program, its version and its profile.
fn program() -> String {
    format!("weir {} (profile {})", env!("CARGO_PKG_VERSION"), build::PROFILE)
}

/// Three commands that show a miss, a hit and a revalidation, and where to look.
pub(crate) fn demo_lines(loaded: &Loaded, admin: &str) -> String {
    let at = loaded.config.listen.first().map_or_else(String::new, reachable);
    // With `--host` the site has that host alone, and its name may not lead here.
    let hosts = loaded.resolved().iter().flat_map(|site| &site.hosts);
    let host = hosts.into_iter().find(|host| **host != HostPattern::Default);
    let field = host.map_or_else(String::new, |host| format!("-H 'Host: {host}' "));
    let curl = format!("curl -i {field}{at}/hello");
    let base = host.map_or(at, |host| format!("http://{host}"));
    let no_cache = "-H 'Cache-Control: no-cache'";
    let width = curl.len() + no_cache.len() + 1;
    // Who measures a first look would measure what it was not built for.
    let measured = if build::PROFILE == build::SHIPPED { "" } else { NOT_SHIPPED };
    format!(
        "\n  Try, in another terminal, and watch Cache-Status and Age:\n\n\
         \x20   {curl:<width$}   # a miss: fetched and stored\n\
         \x20   {curl:<width$}   # a hit: from the cache\n\
         \x20   {curl} {no_cache}   # a revalidation: the origin answers 304\n\n\
         \x20 {base}/ links all pages of the demo; {admin}/metrics counts. Ctrl-C ends.{measured}\n\n"
    )
}

/// [`url`] for a client on this machine.
fn reachable(listen: &Listen) -> String {
    let mut listen = listen.clone();
    if let ListenAddress::Tcp(at) = &mut listen.address
        && at.ip().is_unspecified()
    {
        at.set_ip(if at.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    url(&listen)
}

fn url(listen: &Listen) -> String {
    match &listen.address {
        ListenAddress::Tcp(at) if listen.tls => format!("https://{at}"),
        ListenAddress::Tcp(at) => format!("http://{at}"),
        ListenAddress::Unix { path, .. } => format!("unix:{}", path.display()),
    }
}

/// The Host that the one route sends, if it is not the client's.
fn sent_host(loaded: &Loaded) -> Option<String> {
    let route = loaded.resolved().first()?.routes.first()?;
    match &route.action {
        Action::Forward { host: HostRule::Fixed(authority), .. } => Some(authority.clone()),
        Action::Forward { host: HostRule::Origin, upstream } => {
            let origin = loaded.config.upstream.get(upstream)?.origins.first()?;
            origin.url().authority()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::{Flags, from_flags};

    fn flags(origin: &str) -> Loaded {
        from_flags(&Flags { origin: origin.into(), ..Flags::default() }).unwrap()
    }

    #[test]
    fn it_names_the_origin_and_the_host_it_is_sent() {
        let line =
            first_line(&flags("https://www.example.com"), &Before::Origin("https://www.example.com".into()));
        let expect = "  http://127.0.0.1:8080 -> https://www.example.com  (sends Host: www.example.com)\n";
        assert_eq!(line, format!("{}{expect}", program()));
        assert!(line.contains(&format!(" (profile {})  ", build::PROFILE)), "{line}");
        let line = first_line(&flags("http://127.0.0.1:81"), &Before::Origin("http://127.0.0.1:81".into()));
        assert!(line.ends_with("  http://127.0.0.1:8080 -> http://127.0.0.1:81\n"), "{line}");
        let secured = from_flags(&Flags {
            origin: "http://127.0.0.1:81".into(),
            hosts: vec!["a.example".into()],
            listen: vec!["0.0.0.0:80".into()],
            listen_tls: vec!["0.0.0.0:443".into()],
            ..Flags::default()
        });
        let line = first_line(&secured.unwrap(), &Before::Origin("http://127.0.0.1:81".into()));
        assert!(line.contains("  http://0.0.0.0:80, https://0.0.0.0:443 -> "), "{line}");
    }

    #[test]
    fn the_demo_shows_three_commands() {
        let text = demo_lines(&flags("http://127.0.0.1:81"), "http://127.0.0.1:9180");
        let commands: Vec<&str> = text.lines().filter(|line| line.contains("curl -i")).collect();
        assert_eq!(commands.len(), 3, "{text}");
        assert!(commands[0].contains("curl -i http://127.0.0.1:8080/hello "), "{text}");
        let at: Vec<_> = commands.iter().map(|line| line.find('#')).collect();
        assert!(at.iter().all(|column| *column == at[0] && column.is_some()), "{text}");
        let hosted = from_flags(&Flags {
            origin: "http://127.0.0.1:81".into(),
            hosts: vec!["a.example".into()],
            listen: vec!["0.0.0.0:80".into()],
            listen_tls: vec!["0.0.0.0:443".into()],
            ..Flags::default()
        });
        let text = demo_lines(&hosted.unwrap(), "http://127.0.0.1:9180");
        assert!(text.contains("curl -i -H 'Host: a.example' http://127.0.0.1:80/hello "), "{text}");
        assert!(text.contains("  http://a.example/ links all pages"), "{text}");
    }
}
