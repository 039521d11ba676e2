//! Purging: turns an order in words into marks of the ledger. [`by_client`] is `PURGE` and the like of a
//! client that may purge: [`rights`] says how much it may, [`wanted`] which marks its request means,
//! [`beyond`] what went without being named. It must not search what is held: the cost of a purge does not
//! depend on it.

pub(crate) mod beyond;
pub(crate) mod by_client;
mod held;
mod names;
pub(crate) mod rights;
mod wanted;

use std::collections::HashSet;

use bytes::Bytes;
use weir_policy::tags::{TAG_BYTES_MAX, TAGS_MAX};
use weir_policy::{CacheKey, Tags};
use weir_store::{Force, MARKS_MAX, Mark, PREFIX_BYTES_MAX, Scope, Store};
use weir_wire::{Host, Scheme, without_dots};

pub(crate) use self::names::Name;
use crate::plan::{Plan, Site};

/// The most sites that a sentence names.
const SITES_TOLD_MAX: usize = 50;

/// What is to be purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeTarget {
    /// All keys and variants of a URL; without a scheme: of http and of https.
    Url(String),
    /// All URLs that begin with this text, byte by byte: `https://www.example.com/images/`. Without a
    /// scheme: of http and of https.
    Prefix(String),
    /// All objects with one of these tags.
    Tags {
        /// The tags.
        tags: Vec<String>,
        /// The only site that is meant, by its name or one of its hosts.
        site: Option<String>,
    },
    /// All objects of a site, by its name or one of its hosts as the configuration has them.
    Site(String),
    /// Everything.
    All,
}

/// A purge that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeOrder {
    /// What it concerns.
    pub target: PurgeTarget,
    /// Whether the objects are removed, stale from now on, or fresh for some time.
    pub force: Force,
}

/// The marks of orders.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) all: Vec<Mark>,
    /// How the URLs begin that are concerned in place of fewer, which cannot be told apart.
    pub(crate) wider: Vec<String>,
}

/// The marks for several orders, each once.
///
/// # Errors
/// As for one: then none is carried out.
pub(crate) fn marks_of(plan: &Plan, orders: &[PurgeOrder]) -> Result<Marks, String> {
    let mut seen = HashSet::new();
    let mut marks = Marks { all: Vec::with_capacity(orders.len()), wider: Vec::new() };
    for order in orders {
        let Marks { all, wider } = of_order(plan, order)?;
        marks.all.extend(all.into_iter().filter(|mark| seen.insert(*mark)));
        if marks.all.len() > MARKS_MAX {
            return Err(format!("that makes more than {MARKS_MAX} marks; name less at once, or a site"));
        }
        marks.wider.extend(wider);
    }
    marks.wider.sort_unstable();
    marks.wider.dedup();
    Ok(marks)
}

/// How many objects the orders take; `None` where finding that out would take a search.
pub(crate) fn held_of(store: &Store, plan: &Plan, orders: &[PurgeOrder], marks: &[Mark]) -> Option<u64> {
    let url = |order: &PurgeOrder| match &order.target {
        PurgeTarget::Url(url) => Some(url.clone()),
        _ => None,
    };
    let urls: Option<Vec<String>> = orders.iter().map(url).collect();
    held::held(store, plan, urls.as_deref(), marks)
}

/// Whether an order of now for a target would concern what a site holds under a key with these tags.
pub(crate) fn concerns(
    plan: &Plan,
    target: &PurgeTarget,
    (name, key): (&str, &str),
    tags: &[String],
) -> bool {
    let Ok(own) = site(plan, name) else { return false };
    if let PurgeTarget::Tags { tags: wanted, site: of } = target {
        let is_here = of.as_ref().is_none_or(|of| site(plan, of).is_ok_and(|of| of.mark == own.mark));
        return is_here && wanted.iter().any(|tag| tags.iter().any(|known| known == tag.trim_ascii()));
    }
    let key = CacheKey::new(Bytes::copy_from_slice(key.as_bytes())).of_site(own.mark);
    let order = PurgeOrder { target: target.clone(), force: Force::Soft };
    of_order(plan, &order)
        .is_ok_and(|marks| marks.all.iter().any(|mark| mark.scope.concerns(&key, &Tags::default())))
}

/// The marks for an order.
///
/// # Errors
/// A sentence that says what to write instead.
fn of_order(plan: &Plan, order: &PurgeOrder) -> Result<Marks, String> {
    let names = match &order.target {
        PurgeTarget::All => return Ok(order.marks([Scope::All])),
        PurgeTarget::Site(name) => return Ok(order.marks([Scope::Site(site(plan, name)?.mark)])),
        PurgeTarget::Tags { tags, site: name } => {
            let site = name.as_ref().map(|name| site(plan, name)).transpose()?;
            return Ok(order.marks(of_tags(tags, site.map_or(0, |site| site.mark))?));
        }
        PurgeTarget::Prefix(text) => prefix_names(plan, text)?,
        PurgeTarget::Url(text) => places(plan, text)?.iter().flat_map(Place::names).collect(),
    };
    let wider = names.iter().filter(|name| name.is_wider).map(|name| name.text().to_owned());
    let wider: Vec<String> = wider.collect();
    if let (Force::Lifetime(_), Some(wider)) = (order.force, wider.first()) {
        // Nobody's lifetime gets longer than was ordered.
        return Err(format!(
            "the keys there have a path or query that cannot be told without the requests: a lifetime would \
             be that of all that begins with {wider}; name a tag, or the site"
        ));
    }
    Ok(Marks { wider, ..order.marks(names.iter().map(Name::scope)) })
}

impl PurgeOrder {
    fn marks(&self, scopes: impl IntoIterator<Item = Scope>) -> Marks {
        let mark = |scope| Mark { scope, force: self.force };
        Marks { all: scopes.into_iter().map(mark).collect(), wider: Vec::new() }
    }
}

pub(crate) fn site<'p>(plan: &'p Plan, name: &str) -> Result<&'p Site, String> {
    let by_name = plan.sites().iter().find(|site| *site.name == *name);
    let found = by_name.or_else(|| plan.site_written(name));
    found.map(|site| &**site).ok_or_else(|| {
        let names: Vec<&str> = plan.sites().iter().take(SITES_TOLD_MAX).map(|site| &*site.name).collect();
        let more = plan.sites().len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("no site is named {name}; there are: {}{more}", names.join(", "))
    })
}

/// The site that a URL leads to, or a URL prefix.
pub(crate) fn site_of_url<'p>(plan: &'p Plan, text: &str) -> Option<&'p Site> {
    places(plan, text).ok()?.first().map(|place| place.site)
}

/// The names in keys of all URLs that begin with a text.
///
/// # Errors
/// A sentence that says what to write instead.
pub(crate) fn prefix_names(plan: &Plan, text: &str) -> Result<Vec<Name>, String> {
    let places = places(plan, text)?;
    places.iter().try_for_each(Place::check_prefix)?;
    Ok(places.iter().flat_map(Place::names_below).collect())
}

/// The marks of tags in a site; 0 stands for all sites.
fn of_tags(tags: &[String], site: u64) -> Result<Vec<Scope>, String> {
    if tags.is_empty() || tags.len() > TAGS_MAX {
        return Err(format!("name 1 to {TAGS_MAX} tags at once, not {}", tags.len()));
    }
    let scope = |tag: &String| match tag.trim_ascii() {
        "" => Err("a tag is empty".to_owned()),
        tag if tag.len() > TAG_BYTES_MAX => {
            Err(format!("a tag has {} bytes; they have at most {TAG_BYTES_MAX}", tag.len()))
        }
        tag => Ok(Scope::tag_of(site, tag.as_bytes())),
    };
    tags.iter().map(scope).collect()
}

/// A scheme, a host of a site, and a path with its query.
struct Place<'a> {
    scheme: Scheme,
    host: Host,
    site: &'a Site,
    path_and_query: String,
}

/// A URL in words, read as far as it goes without a plan.
pub(crate) struct Written<'t> {
    /// One, or both.
    pub(crate) schemes: Vec<Scheme>,
    /// The host, with a port where it has one.
    pub(crate) authority: &'t str,
    /// From the slash on, without dot segments.
    pub(crate) path_and_query: String,
}

/// Reads a URL, with its scheme or without.
pub(crate) fn written(text: &str) -> Result<Written<'_>, String> {
    let (schemes, rest) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (vec![Scheme::Http], rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (vec![Scheme::Https], rest),
        Some((scheme, _)) if !scheme.contains(['/', '?']) => {
            return Err(format!("{text}: the scheme is http or https, not {scheme}"));
        }
        _ => (vec![Scheme::Http, Scheme::Https], text),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.is_empty() {
        return Err(format!("{text}: write it with its host: HOST/PATH or http://HOST/PATH"));
    }
    if path.contains('#') {
        return Err(format!("{text}: what follows `#` is never sent to a server; leave it out"));
    }
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("{text}: write blanks and other than ASCII characters percent-encoded"));
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    let path_and_query = without_dots(&format!("{slash}{path}")).into_owned();
    Ok(Written { schemes, authority, path_and_query })
}

/// The URLs that a text names: one, or one for each scheme.
fn places<'p>(plan: &'p Plan, text: &str) -> Result<Vec<Place<'p>>, String> {
    let Written { schemes, authority, path_and_query } = written(text)?;
    let place = |scheme| {
        let host = Host::parse(&Bytes::copy_from_slice(authority.as_bytes()), Some(scheme))
            .map_err(|refusal| format!("{authority} is not a host ({})", refusal.reason()))?;
        let site = plan.site(host.name()).ok_or_else(|| format!("no site has the host {}", host.name()))?;
        Ok(Place { scheme, host, site, path_and_query: path_and_query.clone() })
    };
    schemes.into_iter().map(place).collect()
}

impl Place<'_> {
    fn text(&self) -> String {
        format!("{}://{}{}", self.scheme.as_str(), self.host.as_str(), self.path_and_query)
    }

    /// # Errors
    /// It is not what an operator means by a prefix.
    fn check_prefix(&self) -> Result<(), String> {
        let text = self.text();
        if text.len() > PREFIX_BYTES_MAX {
            return Err(format!("a prefix has {} bytes; it has at most {PREFIX_BYTES_MAX}", text.len()));
        }
        if text.ends_with('*') {
            return Err("a prefix means all that begins with it: leave the `*` at its end out".to_owned());
        }
        Ok(())
    }
}

/// The site of an authority as a client writes it.
fn site_of<'p>(plan: &'p Plan, authority: &str) -> Option<&'p Site> {
    let host = Host::parse(&Bytes::copy_from_slice(authority.as_bytes()), None).ok()?;
    plan.site(host.name()).map(|site| &**site)
}

#[cfg(test)]
mod tests;
