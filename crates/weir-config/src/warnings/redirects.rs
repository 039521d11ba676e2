//! Warnings about redirects that lead back to their own route. Must not follow one to another site.

use super::Warning;
use crate::resolve::{Action, Conditions, PathRule, ResolvedSite};
use crate::value::{Captured, Capturing, HostPattern};
use http::Method;
use weir_policy::value::{Part, Value, What};

/// A request that a redirect is tried with.
struct Sample<'s> {
    scheme: &'static str,
    host: &'s str,
    path: &'s str,
    captured: Option<&'s Captured<'s>>,
}

/// The warning about the route `at`, where it is a redirect that leads to itself.
pub(super) fn of_route(site: &ResolvedSite, at: usize) -> Option<Warning> {
    let route = &site.routes[at];
    let Action::Redirect { to, .. } = &route.action else { return None };
    // Which port a request comes by is not known of its URL.
    if site.routes[..=at].iter().any(|route| !route.conditions.ports.is_empty()) {
        return None;
    }
    let path = sample_path(&route.conditions.path);
    let capturing = match &route.conditions.path {
        PathRule::Glob(glob) => Capturing::of_glob(glob),
        PathRule::Prefix(prefix) => Capturing::of_prefix(prefix),
        PathRule::Any | PathRule::Regex(_) => None,
    };
    let captured = capturing.as_ref().and_then(|capturing| capturing.find(&path));
    let hosts: Vec<String> = site.hosts.iter().map(sample_host).collect();
    let circles = |scheme: &'static str| {
        hosts.iter().find(|host| {
            let sample = Sample { scheme, host, path: &path, captured: captured.as_ref() };
            first_of(site, &sample) == Some(at)
                && target(to, &sample).is_some_and(|next| {
                    (next.0.as_str(), next.1.as_str()) == (scheme, host.as_str())
                        && first_of(site, &Sample { path: &next.2, ..sample }) == Some(at)
                })
        })
    };
    let (over_http, over_https) = (circles("http"), circles("https"));
    let remedy = match over_http.is_none() {
        true => "; give the route `scheme = \"http\"`, or, in its place, the site `https = \"redirect\"`",
        false => "",
    };
    let scheme = if over_https.is_some() { "https" } else { "http" };
    let host = over_https.or(over_http)?;
    let sentence =
        format!("`redirect` leads {scheme}://{host}{path} back to this route, in a circle{remedy}");
    Some((&["redirect"], sentence))
}

/// A path that the rule takes; for an expression one that stands for all that it takes.
fn sample_path(rule: &PathRule) -> String {
    match rule {
        PathRule::Any | PathRule::Regex(_) => "/a".to_owned(),
        PathRule::Glob(glob) => glob.replace("**", "a").replace('*', "a"),
        PathRule::Prefix(prefix) => format!("{prefix}a"),
    }
}

fn sample_host(pattern: &HostPattern) -> String {
    match pattern {
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Below(suffix) => format!("a{suffix}"),
        HostPattern::Default => "any.example".to_owned(),
    }
}

/// The first route that takes a GET request for a path over TLS.
pub(super) fn first_for(site: &ResolvedSite, path: &str) -> Option<usize> {
    let host = sample_host(site.hosts.first()?);
    first_of(site, &Sample { scheme: "https", host: &host, path, captured: None })
}

/// The first route that takes a request.
fn first_of(site: &ResolvedSite, sample: &Sample<'_>) -> Option<usize> {
    site.routes.iter().position(|route| takes(&route.conditions, sample))
}

fn takes(conditions: &Conditions, sample: &Sample<'_>) -> bool {
    use crate::model::SchemeName;
    let scheme = match conditions.scheme {
        Some(SchemeName::Http) => sample.scheme == "http",
        Some(SchemeName::Https) => sample.scheme == "https",
        None => true,
    };
    let method = conditions.methods.is_empty() || conditions.methods.contains(&Method::GET);
    let path = match &conditions.path {
        PathRule::Any => true,
        PathRule::Prefix(prefix) => sample.path.starts_with(prefix.as_str()),
        PathRule::Glob(glob) => {
            Capturing::of_glob(glob).is_some_and(|capturing| capturing.find(sample.path).is_some())
        }
        // What it takes cannot be said by an example: only its own path comes back to it.
        PathRule::Regex(_) => sample.path == "/a",
    };
    let host = conditions.hosts.is_empty() || conditions.hosts.iter().any(|host| host.fits(sample.host));
    scheme && method && host && path
}

/// Scheme, host and path of the target for a request; none where more is needed to know it.
fn target(to: &Value, sample: &Sample<'_>) -> Option<(String, String, String)> {
    let mut text = String::new();
    for part in to.parts() {
        match part {
            Part::Text(plain) => text.push_str(plain),
            Part::Of(placeholder) if placeholder.is_filtered() => return None,
            Part::Of(placeholder) => match &placeholder.what {
                What::Scheme => text.push_str(sample.scheme),
                What::Host | What::Hostname => text.push_str(sample.host),
                What::Path | What::Uri => text.push_str(sample.path),
                What::Query => {}
                What::Capture(number) => {
                    let captured = sample.captured?.get(*number)?;
                    text.push_str(std::str::from_utf8(captured).ok()?);
                }
                _ => return None,
            },
        }
    }
    let (scheme, host, path) = match text.split_once("://") {
        Some((scheme, rest)) => {
            let at = rest.find('/').unwrap_or(rest.len());
            (scheme.to_owned(), rest[..at].to_owned(), rest[at..].to_owned())
        }
        None if text.starts_with('/') => (sample.scheme.to_owned(), sample.host.to_owned(), text),
        None => return None,
    };
    let path = path.split('?').next().unwrap_or_default();
    Some((scheme, host, if path.is_empty() { "/".to_owned() } else { path.to_owned() }))
}

#[cfg(test)]
mod tests;
