//! Which paths and queries the keys of a route may have for a URL, or for all that begin with a text, for any
//! client. Orders and unsafe requests mark these. Pure; it must not know what is held.

use weir_config::value::{Below, Takes};
use weir_policy::{Beginning, QueryRule, RequestView, beginnings, forwarded, read_path};

use super::Route;
use super::pattern::PathPattern;
use super::rewrite::Rewrites;
use super::rewrite::outcomes::{Asked, Captures, Extent, outcomes};
use super::rewrite::target::{DotSegment, KeyPath, Whose};
use crate::values::OfRequest;

impl Route {
    /// Those of the URL that is asked for.
    pub(crate) fn targets(&self, known: &OfRequest<'_>, whose: Whose) -> Vec<KeyPath> {
        let key = &self.rules.key;
        let target = forwarded(key, known.view.path_and_query);
        let known = OfRequest { view: RequestView { path_and_query: &target, ..known.view }, ..*known };
        match self.keyed_rewrites().map(|rewrites| rewrites.targets(&known, whose)) {
            Some(Ok(Some(targets))) => targets,
            Some(Err(DotSegment)) => Vec::new(),
            Some(Ok(None)) | None => {
                let text = match key.query {
                    QueryRule::Unkeyed(_) => known.view.path(),
                    _ => known.view.path_and_query,
                };
                vec![KeyPath::exact(Beginning::Whole(text.to_owned()))]
            }
        }
    }

    /// Those of all URLs whose path and query begin with those that are asked for, but for what begins so
    /// itself. `takes` says which of the URLs the route takes.
    pub(crate) fn targets_below(&self, known: &OfRequest<'_>, takes: Takes) -> Vec<KeyPath> {
        let key = &self.rules.key;
        let begin = known.view.path_and_query;
        let targets = match (self.keyed_rewrites(), begin.split_once('?')) {
            (Some(rewrites), None) => rewrites.targets_below(known, takes),
            (Some(rewrites), Some((path, query))) => match rewrites.targets_of_queries(known, (key, query)) {
                Ok(Some(targets)) => targets,
                Ok(None) => self.unwritten(path, query),
                Err(DotSegment) => Vec::new(),
            },
            (None, None) => Vec::new(),
            (None, Some((path, query))) => self.unwritten(path, query),
        };
        let is_within = |target: &KeyPath| match &target.text {
            Beginning::Whole(text) | Beginning::Open(text) => text.starts_with(begin),
        };
        targets.into_iter().filter(|target| !is_within(target)).collect()
    }

    /// Those of a path that is not rewritten, for all its queries that begin so.
    fn unwritten(&self, path: &str, query: &str) -> Vec<KeyPath> {
        if matches!(self.rules.key.query, QueryRule::Unkeyed(_)) {
            return vec![KeyPath::exact(Beginning::Whole(path.to_owned()))];
        }
        let found = beginnings(&self.rules.key, path, query);
        let target = |text| KeyPath { text, is_wider: found.is_wider };
        found.all.into_iter().map(target).collect()
    }

    fn keyed_rewrites(&self) -> Option<&Rewrites> {
        self.rewrites.as_deref().filter(|rewrites| self.is_keyed_rewritten && !rewrites.rules.is_empty())
    }

    /// The route itself, and where a map chooses the upstream, the routes to choose from.
    pub(crate) fn all_chosen(&self) -> impl Iterator<Item = &Route> {
        let chosen = self.choice.iter().flat_map(|choice| choice.all());
        std::iter::once(self).chain(chosen.map(|route| &**route))
    }

    /// Which requests the route takes whose path begins with a text, by whatever port of ours.
    pub(crate) fn takes_below(&self, view: &RequestView<'_>, begin: &str) -> Takes {
        let takes_scheme = self.scheme.is_none_or(|own| own == view.scheme);
        let takes_method = self.methods.is_empty() || self.methods.contains(view.method);
        let takes_host = self.place_in.as_ref().is_none_or(|place| place.has_host(view));
        if !takes_scheme || !takes_method || !takes_host {
            return Takes::None;
        }
        match self.path.below(plain(begin)) {
            Takes::All if self.place_in.as_ref().is_some_and(|place| place.names_ports()) => Takes::Some,
            takes => takes,
        }
    }
}

impl Rewrites {
    /// What rules make of a URL; none where no rule fits. `known` has the query that the key leaves.
    fn targets(&self, known: &OfRequest<'_>, whose: Whose) -> Result<Option<Vec<KeyPath>>, DotSegment> {
        let path = known.view.path();
        let read = read_path(path);
        let Some((rule, captured)) = self.fitting(path, &read)? else { return Ok(None) };
        let asked = Asked { captures: Captures::All(captured), known, extent: Extent::Url, whose };
        Ok(Some(outcomes(&self.rules[rule].to, &asked)))
    }

    /// The same of a path with all its queries that begin so.
    fn targets_of_queries(
        &self,
        known: &OfRequest<'_>,
        (key, query): (&weir_policy::KeyRules, &str),
    ) -> Result<Option<Vec<KeyPath>>, DotSegment> {
        let path = known.view.path();
        let read = read_path(path);
        let Some((rule, captured)) = self.fitting(path, &read)? else { return Ok(None) };
        let extent = Extent::Path { key, query };
        let asked = Asked { captures: Captures::All(captured), known, extent, whose: Whose::All };
        Ok(Some(outcomes(&self.rules[rule].to, &asked)))
    }

    /// The same of all paths that begin so. What no rule fits begins so itself.
    fn targets_below(&self, known: &OfRequest<'_>, takes: Takes) -> Vec<KeyPath> {
        let begin = known.view.path_and_query;
        let plain = plain(begin);
        let (mut all, mut is_certain) = (Vec::new(), takes == Takes::All);
        for rule in &self.rules {
            // Rules are chosen by the path as origins read it. Captures are as the client has sent them,
            // where the rule fits that.
            let read = rule.from.find_below(plain);
            if read.takes == Takes::None {
                continue;
            }
            let received = rule.from.find_below(begin);
            let below = match received.takes {
                Takes::All => received,
                _ if plain.len() == begin.len() => read.clone(),
                _ => Below::some(),
            };
            is_certain &= below.takes == Takes::All;
            let asked =
                Asked { captures: Captures::Below(&below), known, extent: Extent::Begin, whose: Whose::All };
            let found = outcomes(&rule.to, &asked);
            all.extend(
                found
                    .into_iter()
                    .map(|target| KeyPath { is_wider: target.is_wider || !is_certain, ..target }),
            );
            if read.takes == Takes::All {
                break;
            }
        }
        all
    }
}

impl PathPattern {
    /// Which paths it takes that begin, as origins read them, with a text.
    fn below(&self, begin: &str) -> Takes {
        let begin = begin.as_bytes();
        let may = |first: &[u8]| match begin.starts_with(first) || first.starts_with(begin) {
            true => Takes::Some,
            false => Takes::None,
        };
        match self {
            PathPattern::Any => Takes::All,
            PathPattern::Prefix(prefix) if begin.starts_with(prefix.as_bytes()) => Takes::All,
            PathPattern::Prefix(prefix) => may(prefix.as_bytes()),
            PathPattern::Exact(exact) if exact.as_bytes().starts_with(begin) => Takes::Some,
            PathPattern::Exact(_) => Takes::None,
            PathPattern::Glob(glob) => may(glob.first()),
            PathPattern::Regex(_) => Takes::Some,
        }
    }
}

/// How each path that begins with a text also begins as origins read it, unless it has dot segments.
fn plain(begin: &str) -> &str {
    let bytes = begin.as_bytes();
    let is_odd = |at: &usize| {
        let is_slash_before = *at > 0 && bytes[*at - 1] == b'/';
        matches!(bytes[*at], b'%' | b'\\' | b';') || (is_slash_before && matches!(bytes[*at], b'/' | b'.'))
    };
    &begin[..(0..bytes.len()).find(is_odd).unwrap_or(bytes.len())]
}
