//! Which requests a route is for. Must not know what is done with them.

use crate::{
    model::{Route, SchemeName},
    value::{PathRegex, RouteHost},
};
use http::Method;
use std::fmt;

/// Which requests a route is for. All given conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// What the path must be.
    pub path: PathRule,
    /// The methods; empty: every method.
    pub methods: Vec<Method>,
    /// The scheme that the client used.
    pub scheme: Option<SchemeName>,
    /// The hosts; empty: every host of the site.
    pub hosts: Vec<RouteHost>,
    /// The ports of the listener; empty: every listener.
    pub ports: Vec<u16>,
}

/// For people: `path /img/**, method GET HEAD`.
impl fmt::Display for Conditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = match &self.path {
            PathRule::Any => Vec::new(),
            PathRule::Glob(glob) => vec![format!("path {glob}")],
            PathRule::Prefix(prefix) => vec![format!("prefix {prefix}")],
            PathRule::Regex(regex) => vec![format!("regex {regex}")],
        };
        if !self.methods.is_empty() {
            let methods: Vec<&str> = self.methods.iter().map(Method::as_str).collect();
            parts.push(format!("method {}", methods.join(" ")));
        }
        match self.scheme {
            Some(SchemeName::Http) => parts.push("scheme http".to_owned()),
            Some(SchemeName::Https) => parts.push("scheme https".to_owned()),
            None => {}
        }
        if !self.hosts.is_empty() {
            let hosts: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
            parts.push(format!("host {}", hosts.join(" ")));
        }
        if !self.ports.is_empty() {
            let ports: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
            parts.push(format!("port {}", ports.join(" ")));
        }
        match parts.as_slice() {
            [] => out.write_str("every request"),
            parts => out.write_str(&parts.join(", ")),
        }
    }
}

/// What a path must be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PathRule {
    /// Anything.
    #[default]
    Any,
    /// It matches this glob.
    Glob(String),
    /// It begins with this.
    Prefix(String),
    /// This expression is found in it.
    Regex(PathRegex),
}

pub(crate) fn conditions(route: &Route) -> Conditions {
    let path = match (&route.path, &route.prefix, &route.regex) {
        (Some(glob), ..) => PathRule::Glob(glob.0.clone()),
        (_, Some(prefix), _) => PathRule::Prefix(prefix.0.clone()),
        (.., Some(regex)) => PathRule::Regex(regex.clone()),
        _ => PathRule::Any,
    };
    Conditions {
        path,
        methods: route
            .method
            .iter()
            .flat_map(|methods| methods.iter())
            .map(|method| method.0.clone())
            .collect(),
        scheme: route.scheme,
        hosts: route.hosts.clone().unwrap_or_default(),
        ports: route.port.as_ref().map_or_else(Vec::new, |ports| ports.all().to_vec()),
    }
}
