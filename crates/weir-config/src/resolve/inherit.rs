//! How rules override those that they inherit, and their form for the policy. Must not read anything.

use super::{RangeRules, ResolvedRate};
use crate::model::{
    ClientDirectives, CloseDelimited, ErrorStorage, FieldEdits, Heuristics, Key, Query, Range, RangeFill,
    Rate, Rules, SetCookie, Stale, Surrogate, Triggers, WithoutValidator,
};
use std::collections::BTreeMap;
use weir_policy::{CacheRules, HeaderTrigger, KeyRules, QueryOrder, QueryRule, StaleRules};

/// The tables that are inherited key by key; every other value is replaced as a whole.
pub(crate) const JOINED: [&str; 8] =
    ["stale", "range", "bypass", "refresh", "key", "request_headers", "response_headers", "error_pages"];

impl Rules {
    /// These rules, completed from `base`.
    pub(crate) fn inherit(&self, base: &Rules) -> Rules {
        Rules {
            upstream: nearest(&self.upstream, &base.upstream),
            host: nearest(&self.host, &base.host),
            ttl: self.ttl.or(base.ttl),
            ttl_override: self.ttl_override.or(base.ttl_override),
            browser_ttl: self.browser_ttl.or(base.browser_ttl),
            stale: joined(&self.stale, &base.stale, |near, far| Stale {
                while_revalidate: near.while_revalidate.or(far.while_revalidate),
                if_error: near.if_error.or(far.if_error),
                if_unreachable: near.if_unreachable.or(far.if_unreachable),
            }),
            revalidation_wait: self.revalidation_wait.or(base.revalidation_wait),
            range: joined(&self.range, &base.range, |near, far| Range {
                chunk: near.chunk.or(far.chunk),
                fill: near.fill.or(far.fill),
                without_validator: near.without_validator.or(far.without_validator),
                ahead: near.ahead.or(far.ahead),
                parallel: near.parallel.or(far.parallel),
            }),
            show_key: self.show_key.or(base.show_key),
            show_tags: self.show_tags.or(base.show_tags),
            bypass: joined(&self.bypass, &base.bypass, join_triggers),
            refresh: joined(&self.refresh, &base.refresh, join_triggers),
            purge: nearest(&self.purge, &base.purge),
            rate: nearest(&self.rate, &base.rate),
            key: joined(&self.key, &base.key, |near, far| Key {
                query: nearest(&near.query, &far.query),
                headers: nearest(&near.headers, &far.headers),
                cookies: nearest(&near.cookies, &far.cookies),
            }),
            set_cookie: self.set_cookie.or(base.set_cookie),
            client_directives: self.client_directives.or(base.client_directives),
            close_delimited: self.close_delimited.or(base.close_delimited),
            heuristics: self.heuristics.or(base.heuristics),
            errors: self.errors.or(base.errors),
            surrogate: self.surrogate.or(base.surrogate),
            request_headers: joined(&self.request_headers, &base.request_headers, join_edits),
            response_headers: joined(&self.response_headers, &base.response_headers, join_edits),
            error_pages: joined(&self.error_pages, &base.error_pages, |near, far| {
                far.iter().chain(near).map(|(status, page)| (status.clone(), page.clone())).collect()
            }),
            maintenance: nearest(&self.maintenance, &base.maintenance),
        }
    }

    /// How ranges are fetched.
    pub(crate) fn range_rules(&self) -> RangeRules {
        let range = self.range.clone().unwrap_or_default();
        let default = RangeRules::default();
        RangeRules {
            chunk_bytes: range.chunk.map_or(default.chunk_bytes, |size| size.0),
            keeps_unvalidated_parts: range.without_validator == Some(WithoutValidator::Separate),
            fills_whole: range.fill == Some(RangeFill::Whole),
            ahead_bytes: range.ahead.map_or(default.ahead_bytes, |size| size.0),
            parallel: range.parallel.map_or(default.parallel, usize::from),
        }
    }

    /// How fast bodies go out, if a rule says so.
    pub(crate) fn resolved_rate(&self) -> Option<ResolvedRate> {
        let rate = self.rate.as_ref()?;
        let resolved = ResolvedRate {
            limit: rate.limit.map(|limit| limit.0),
            burst_bytes: rate.burst.map_or(0, |burst| burst.0),
            query: rate.query.as_ref().map(|name| name.0.clone()),
            query_max: rate.query_max.or(rate.limit).map(|max| max.0),
            media: rate.media,
        };
        let holds_back = resolved.limit.is_some() || resolved.query.is_some() || resolved.media.is_some();
        holds_back.then_some(resolved)
    }

    /// The caching rules in the policy's form.
    pub(crate) fn cache_rules(&self) -> CacheRules {
        let stale = self.stale.clone().unwrap_or_default();
        CacheRules {
            ttl: self.ttl.map(|ttl| ttl.0),
            ttl_override: self.ttl_override.map(|ttl| ttl.0),
            browser_ttl: self.browser_ttl.map(|ttl| ttl.0),
            stale: StaleRules {
                while_revalidate: stale.while_revalidate.map(|window| window.0),
                if_error: stale.if_error.map(|window| window.0),
                if_unreachable: stale.if_unreachable.map(|window| window.0),
            },
            set_cookie: match self.set_cookie {
                None | Some(SetCookie::NoStore) => weir_policy::SetCookie::NoStore,
                Some(SetCookie::Strip) => weir_policy::SetCookie::Strip,
                Some(SetCookie::Store) => weir_policy::SetCookie::Store,
            },
            bypass: triggers(self.bypass.as_ref()),
            refresh: triggers(self.refresh.as_ref()),
            client_directives: match self.client_directives {
                None | Some(ClientDirectives::Honour) => weir_policy::ClientDirectives::Honour,
                Some(ClientDirectives::Trusted) => weir_policy::ClientDirectives::Trusted,
                Some(ClientDirectives::Ignore) => weir_policy::ClientDirectives::Ignore,
            },
            close_delimited: match self.close_delimited {
                None | Some(CloseDelimited::NoStore) => weir_policy::CloseDelimited::NoStore,
                Some(CloseDelimited::Store) => weir_policy::CloseDelimited::Store,
            },
            heuristics: match self.heuristics {
                None | Some(Heuristics::Safe) => weir_policy::Heuristics::Safe,
                Some(Heuristics::Whole) => weir_policy::Heuristics::Whole,
                Some(Heuristics::Off) => weir_policy::Heuristics::Off,
            },
            errors: match self.errors {
                None | Some(ErrorStorage::Explicit) => weir_policy::Errors::Explicit,
                Some(ErrorStorage::NoStore) => weir_policy::Errors::NoStore,
                Some(ErrorStorage::Store400) => weir_policy::Errors::Store400,
            },
            surrogate: match self.surrogate {
                None | Some(Surrogate::Honour) => weir_policy::Surrogate::Honour,
                Some(Surrogate::Ignore) => weir_policy::Surrogate::Ignore,
            },
            key: key_rules(self.key.as_ref(), self.rate.as_ref()),
        }
    }
}

fn nearest<T: Clone>(near: &Option<T>, far: &Option<T>) -> Option<T> {
    near.as_ref().or(far.as_ref()).cloned()
}

fn joined<T: Clone>(near: &Option<T>, far: &Option<T>, join: impl FnOnce(&T, &T) -> T) -> Option<T> {
    match (near, far) {
        (Some(near), Some(far)) => Some(join(near, far)),
        (near, far) => nearest(near, far),
    }
}

fn join_triggers(near: &Triggers, far: &Triggers) -> Triggers {
    Triggers {
        cookies: nearest(&near.cookies, &far.cookies),
        headers: nearest(&near.headers, &far.headers),
        paths: nearest(&near.paths, &far.paths),
    }
}

/// Names are compared without case, like fields. A removal undoes an inherited setting.
fn join_edits(near: &FieldEdits, far: &FieldEdits) -> FieldEdits {
    let is_replaced = |name: &str| {
        near.set.keys().any(|set| set.eq_ignore_ascii_case(name))
            || near.remove.iter().flatten().any(|removed| removed.0.as_str().eq_ignore_ascii_case(name))
    };
    let kept = far.set.iter().filter(|(name, _)| !is_replaced(name));
    let set: BTreeMap<_, _> =
        kept.chain(&near.set).map(|(name, text)| (name.clone(), text.clone())).collect();
    FieldEdits { set, remove: nearest(&near.remove, &far.remove) }
}

fn triggers(triggers: Option<&Triggers>) -> weir_policy::Triggers {
    let Some(triggers) = triggers else { return weir_policy::Triggers::default() };
    weir_policy::Triggers {
        cookies: triggers.cookies.iter().flatten().map(|name| name.0.clone()).collect(),
        headers: triggers
            .headers
            .iter()
            .flatten()
            .map(|field| HeaderTrigger { name: field.name.0.clone(), value: field.value.clone() })
            .collect(),
        paths: triggers.paths.iter().flatten().map(|path| path.0.clone()).collect(),
    }
}

/// The parameter that asks for a rate is not part of an object: it is dropped like those of `drop`, unless
/// `keep` names it.
fn key_rules(key: Option<&Key>, rate: Option<&Rate>) -> KeyRules {
    let asks = rate.and_then(|rate| rate.query.as_ref()).map(|name| name.0.clone());
    let key = key.cloned().unwrap_or_default();
    let query = key.query.unwrap_or_default();
    let names = |list: Vec<crate::value::NameGlob>| list.into_iter().map(|name| name.0);
    KeyRules {
        order: if query.sort { QueryOrder::Sorted } else { QueryOrder::Received },
        query: match (query, asks) {
            (Query { keep: Some(keep), .. }, _) if keep.is_empty() => QueryRule::None,
            (Query { keep: Some(keep), .. }, _) => QueryRule::Keep(names(keep).collect()),
            (Query { drop: None, .. }, None) => QueryRule::All,
            (Query { drop, .. }, asks) => {
                QueryRule::Drop(names(drop.unwrap_or_default()).chain(asks).collect())
            }
        },
        headers: key.headers.into_iter().flatten().map(|name| name.0).collect(),
        cookies: key.cookies.into_iter().flatten().map(|name| name.0).collect(),
    }
}
