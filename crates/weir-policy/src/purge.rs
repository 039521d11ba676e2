//! What a request of a purge method asks for, in the dialects that applications speak to Varnish: which
//! fields, and what their patterns mean (`docs/guide/purging.md` has the table). It knows no site and no
//! client, and runs no pattern: [`pattern`] reads it.
//!
//! Where a request says more than can be read, more is asked for than it says, and [`Asked::unread`] has the
//! text.

pub mod pattern;

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use self::pattern::{HostPattern, TagPattern, UrlPattern};

/// The methods that ask for a purge. No origin gets them, unless a route names them.
pub const METHODS: [&str; 4] = ["PURGE", "BAN", "PURGEKEYS", "URIBAN"];

const X_PURGE_METHOD: HeaderName = HeaderName::from_static("x-purge-method");
const X_MAGENTO_PURGE_SOFT: HeaderName = HeaderName::from_static("x-magento-purge-soft");
const X_POOL: HeaderName = HeaderName::from_static("x-pool");
const X_URL: HeaderName = HeaderName::from_static("x-url");
const X_HOST: HeaderName = HeaderName::from_static("x-host");

/// The fields that name tags, how each is read, and whether the purge is soft.
const TAG_FIELDS: [(HeaderName, Form, Softness); 9] = [
    (HeaderName::from_static("x-cache-tags-pattern"), Form::Pattern, Softness::Never),
    (HeaderName::from_static("x-magento-tags-pattern"), Form::Pattern, Softness::ByMagento),
    (HeaderName::from_static("x-cache-tags"), Form::Pattern, Softness::Never),
    (HeaderName::from_static("cache-tags"), Form::Pattern, Softness::Never),
    (HeaderName::from_static("purge-cache-tags"), Form::Pattern, Softness::Never),
    (HeaderName::from_static("apiplatform-ban-regex"), Form::Pattern, Softness::Never),
    (HeaderName::from_static("xkey"), Form::List, Softness::Never),
    (HeaderName::from_static("xkey-purge"), Form::List, Softness::Never),
    (HeaderName::from_static("xkey-softpurge"), Form::List, Softness::Always),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A regular expression, or a list of tags.
    Pattern,
    /// A list of tags.
    List,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Softness {
    Never,
    Always,
    /// Where `X-Magento-Purge-Soft` is beside it.
    ByMagento,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What goes.
    pub what: What,
    /// On which hosts.
    pub hosts: Hosts,
    /// The pattern that could not be read, so that more goes than it says.
    pub unread: Option<String>,
}

/// What a purge request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// One path with its query.
    Url(String),
    /// All paths that begin so.
    Prefix(String),
    /// All that has one of these tags. Either list may be empty, not both.
    Tags {
        /// What goes.
        hard: Vec<Vec<u8>>,
        /// What becomes stale.
        soft: Vec<Vec<u8>>,
    },
    /// Everything.
    Everything(Everything),
}

/// Whether everything goes or becomes stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Everything {
    /// It goes.
    Hard,
    /// It becomes stale.
    Soft,
}

/// The hosts of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// The request's own; for tags and everything its whole site.
    Own,
    /// These.
    Named(Vec<String>),
    /// All.
    All,
}

/// A request that asks for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nothing {
    /// A field has no value.
    #[error("the field {0} is empty")]
    Empty(&'static str),
    /// A field is missing.
    #[error("the field {0} is missing")]
    Missing(&'static str),
}

/// Whether the method asks for a purge.
pub fn is_purge(method: &Method) -> bool {
    METHODS.contains(&method.as_str())
}

/// Reads a request of a purge method. `target` is its path and query as received.
///
/// # Errors
/// It names nothing to purge.
pub fn read(method: &Method, target: &str, headers: &HeaderMap) -> Result<Asked, Nothing> {
    let url = || Asked { what: What::Url(target.to_owned()), hosts: Hosts::Own, unread: None };
    if method.as_str() == "URIBAN" {
        return Ok(url());
    }
    if let Some(asked) = by_tags(headers)? {
        return Ok(asked);
    }
    match method.as_str() {
        "PURGEKEYS" => return Err(Nothing::Missing("xkey-purge or xkey-softpurge")),
        _ if says(headers, &X_PURGE_METHOD, "tags") => return Err(Nothing::Missing("X-Cache-Tags-Pattern")),
        _ if headers.contains_key(X_POOL) || headers.contains_key(X_MAGENTO_PURGE_SOFT) => {
            return Err(Nothing::Missing("X-Magento-Tags-Pattern"));
        }
        "BAN" if headers.contains_key(X_URL) || headers.contains_key(X_HOST) => return by_url(headers),
        _ => {}
    }
    Ok(match method.as_str() {
        "PURGE" if says(headers, &X_PURGE_METHOD, "regex") || target.contains(".*") => below(target),
        "PURGE" => url(),
        _ if target == "/" => everything(Hosts::All, None),
        // The last is how Drupal's zero-configuration purger says everything.
        _ if matches!(target, "/.*" | "/*" | "/site") => everything(Hosts::Own, None),
        _ => banned(target),
    })
}

fn everything(hosts: Hosts, unread: Option<String>) -> Asked {
    Asked { what: What::Everything(Everything::Hard), hosts, unread }
}

fn says(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .any(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

/// What the fields of tags ask for; `None` if there is none.
fn by_tags(headers: &HeaderMap) -> Result<Option<Asked>, Nothing> {
    let (mut hard, mut soft) = (Vec::new(), Vec::new());
    let (mut unread, mut is_seen) = (Unread::default(), false);
    let mut all: Option<Everything> = None;
    let is_soft_magento = headers.contains_key(X_MAGENTO_PURGE_SOFT)
        && headers.get_all(X_MAGENTO_PURGE_SOFT).iter().all(|value| !matches!(text(value), b"" | b"0"));
    for (name, form, softness) in &TAG_FIELDS {
        let is_soft = *softness == Softness::Always || (*softness == Softness::ByMagento && is_soft_magento);
        for value in headers.get_all(name) {
            is_seen = true;
            let read = match form {
                _ if text(value).is_empty() => return Err(Nothing::Empty(name_of(name))),
                Form::List => pattern::list(text(value)),
                Form::Pattern => pattern::tags(text(value)),
            };
            match read {
                TagPattern::Tags(tags) if is_soft => soft.extend(tags),
                TagPattern::Tags(tags) => hard.extend(tags),
                wider => {
                    if wider == TagPattern::Unread {
                        unread.add(name, value);
                    }
                    all = Some(match (all, is_soft) {
                        (None | Some(Everything::Soft), true) => Everything::Soft,
                        _ => Everything::Hard,
                    });
                }
            }
        }
    }
    if !is_seen {
        return Ok(None);
    }
    let what = match all {
        // What else is asked for is in everything, unless it goes where everything becomes stale only.
        Some(Everything::Soft) if !hard.is_empty() => What::Everything(Everything::Hard),
        Some(all) => What::Everything(all),
        None => What::Tags { hard, soft },
    };
    let hosts = match only(headers, &X_HOST, pattern::hosts, HostPattern::Unread)? {
        // FOSHttpCache sends `.*` with each purge of tags: the site is that of the request.
        None | Some(HostPattern::All) => Hosts::Own,
        Some(HostPattern::Named(hosts)) => Hosts::Named(hosts),
        Some(HostPattern::Unread) => {
            unread.add_all(headers, &X_HOST);
            Hosts::All
        }
    };
    Ok(Some(Asked { what, hosts, unread: unread.0 }))
}

/// What the only line of a field says; several lines are `unread`. `None` without the field.
fn only<T>(
    headers: &HeaderMap,
    name: &HeaderName,
    read: impl Fn(&[u8]) -> T,
    unread: T,
) -> Result<Option<T>, Nothing> {
    let mut lines = headers.get_all(name).iter().map(text);
    let Some(first) = lines.next() else { return Ok(None) };
    if first.is_empty() {
        return Err(Nothing::Empty(name_of(name)));
    }
    Ok(Some(if lines.next().is_some() { unread } else { read(first) }))
}

/// The fields that cannot be read.
#[derive(Default)]
struct Unread(Option<String>);

impl Unread {
    fn add(&mut self, name: &HeaderName, value: &HeaderValue) {
        // Its name is one of ours; other bytes than ASCII are escaped.
        let field = format!("{name}: {}", text(value).escape_ascii());
        self.0 = Some(self.0.take().map_or_else(|| field.clone(), |before| format!("{before}, {field}")));
    }

    fn add_all(&mut self, headers: &HeaderMap, name: &HeaderName) {
        headers.get_all(name).iter().for_each(|value| self.add(name, value));
    }
}

/// What `X-Url` and `X-Host` ask for.
fn by_url(headers: &HeaderMap) -> Result<Asked, Nothing> {
    let mut unread = Unread::default();
    let hosts = match only(headers, &X_HOST, pattern::hosts, HostPattern::Unread)? {
        None => Hosts::Own,
        Some(HostPattern::Named(hosts)) => Hosts::Named(hosts),
        Some(HostPattern::All) => Hosts::All,
        Some(HostPattern::Unread) => {
            unread.add_all(headers, &X_HOST);
            Hosts::All
        }
    };
    let what = match only(headers, &X_URL, pattern::url, UrlPattern::Unread)? {
        None | Some(UrlPattern::All) => What::Everything(Everything::Hard),
        Some(UrlPattern::Prefix(path)) => What::Prefix(path),
        Some(UrlPattern::Exact(path)) => What::Url(path),
        Some(UrlPattern::Unread) => {
            unread.add_all(headers, &X_URL);
            What::Everything(Everything::Hard)
        }
    };
    Ok(Asked { what, hosts, unread: unread.0 })
}

/// What `PURGE` with a regular expression as its path asks for: `/blog/.*`.
fn below(target: &str) -> Asked {
    match target.strip_suffix(".*").filter(|path| pattern::is_text(path.as_bytes())) {
        Some(path) => Asked { what: What::Prefix(path.to_owned()), hosts: Hosts::Own, unread: None },
        None => everything(Hosts::Own, Some(target.to_owned())),
    }
}

/// What `BAN` with a path asks for: `/news/*`, `/news/.*`. Whether senders mean the path alone or all that
/// begins with it differs, so that the latter goes.
fn banned(target: &str) -> Asked {
    let (path, rest) = match target.find('*') {
        Some(at) => (target[..at].strip_suffix('.').unwrap_or(&target[..at]), &target[at + 1..]),
        None => (target, ""),
    };
    // A query is a text, unless `?` says that what stands before it may be missing.
    let is_text = path.split('?').all(|part| pattern::is_text(part.as_bytes()))
        && path.split('?').skip(1).all(|part| part.starts_with(|first: char| first.is_ascii_alphanumeric()));
    if !is_text {
        return everything(Hosts::Own, Some(target.to_owned()));
    }
    let unread = (!matches!(rest, "" | "$")).then(|| target.to_owned());
    Asked { what: What::Prefix(path.to_owned()), hosts: Hosts::Own, unread }
}

fn text(value: &HeaderValue) -> &[u8] {
    value.as_bytes().trim_ascii()
}

/// The name of one of our fields as its sender writes it.
fn name_of(name: &HeaderName) -> &'static str {
    match name.as_str() {
        "x-cache-tags-pattern" => "X-Cache-Tags-Pattern",
        "x-magento-tags-pattern" => "X-Magento-Tags-Pattern",
        "x-cache-tags" => "X-Cache-Tags",
        "cache-tags" => "Cache-Tags",
        "purge-cache-tags" => "Purge-Cache-Tags",
        "apiplatform-ban-regex" => "ApiPlatform-Ban-Regex",
        "xkey" => "xkey",
        "xkey-purge" => "xkey-purge",
        "x-host" => "X-Host",
        "x-url" => "X-Url",
        _ => "xkey-softpurge",
    }
}

#[cfg(test)]
mod tests;
