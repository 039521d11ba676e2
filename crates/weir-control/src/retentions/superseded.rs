//! Which orders a newer one has superseded: that of the same scope, or of one that contains it for certain.
//! Tags and URLs that overlap are not known here: which tags a response has is in the store alone.

use std::collections::HashSet;

use crate::data_plane::{PurgeScope, RetentionShown};

/// The most prefixes, and the most lists of tags, that are looked at.
const NOTED_MAX: usize = 1000;

/// The scopes of newer orders.
#[derive(Debug, Default)]
pub(super) struct Newer {
    is_all: bool,
    /// All that is of these sites.
    sites: HashSet<String>,
    /// The same scope, as JSON.
    same: HashSet<String>,
    prefixes: Vec<String>,
    /// Of all sites.
    tags: Vec<Vec<String>>,
}

impl Newer {
    /// Notes a scope of an order of these sites; none: of the whole Weir, or of several that are not told
    /// apart.
    pub(super) fn note(&mut self, scope: &PurgeScope, sites: &[String]) {
        self.same.insert(name(scope));
        match (scope, sites) {
            (PurgeScope::All, _) => self.is_all = true,
            (PurgeScope::Site(_), [site]) => {
                self.sites.insert(site.clone());
            }
            (PurgeScope::Prefix(prefix), _) if is_plain(prefix) && self.prefixes.len() < NOTED_MAX => {
                self.prefixes.push(prefix.clone());
            }
            (PurgeScope::Tags(tags), _) if self.tags.len() < NOTED_MAX => self.tags.push(tags.clone()),
            _ => {}
        }
    }

    /// Whether one of them contains the scope of this order.
    pub(super) fn covers(&self, row: &RetentionShown) -> bool {
        if self.is_all || self.same.contains(&name(&row.scope)) {
            return true;
        }
        if let [site] = row.sites.as_slice()
            && self.sites.contains(site)
        {
            return true;
        }
        match &row.scope {
            PurgeScope::Url(url) | PurgeScope::Prefix(url) => {
                is_plain(url) && self.prefixes.iter().any(|prefix| begins_with(url, prefix))
            }
            PurgeScope::Tags(tags) | PurgeScope::TagsOf { tags, .. } => {
                self.tags.iter().any(|newer| tags.iter().all(|tag| newer.contains(tag)))
            }
            PurgeScope::Site(_) | PurgeScope::All => false,
        }
    }
}

fn name(scope: &PurgeScope) -> String {
    serde_json::to_string(scope).unwrap_or_default()
}

/// Whether a URL begins with a prefix. A prefix without a scheme means both schemes.
fn begins_with(url: &str, prefix: &str) -> bool {
    url.starts_with(prefix) || (without_scheme(prefix) == prefix && without_scheme(url).starts_with(prefix))
}

/// Whether its text is compared as it stands: the path has begun, and nothing in it is written in several
/// ways.
fn is_plain(url: &str) -> bool {
    without_scheme(url).contains('/') && !url.contains(['?', '%', '#', '\\']) && !url.contains("/.")
}

fn without_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}
