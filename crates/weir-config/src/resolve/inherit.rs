//! How rules override those that they inherit, and their form for the policy. Must not read anything.

use super::{RangeRules, ResolvedAccess, ResolvedClients, ResolvedLimit, ResolvedRate};
use crate::model::{
    AddedFlag, ClientDirectives, CloseDelimited, CookieFlags, Cookies, EachMinUses, ErrorStorage, FieldEdits,
    FilesRules, HeadRequests, Heuristics, Ignore, IgnoredDirective, Key, KeyQuery, Lifetime, MinUses,
    NamedCookies, Query, QueryWord, Range, RangeFill, RateRule, RemovedFlag, RouteLimits, Rules, SetCookie,
    SetCookieRule, Stale, Surrogate, Triggers, WithoutValidator,
};
use crate::value::{Duration, NameGlob, PairMatch, RateLimit, statuses};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time;
use weir_policy::cookies::CookieRule;
use weir_policy::set_cookie::{Flag, FlagRule};
use weir_policy::value::What;
use weir_policy::{
    CacheRules, HeaderTrigger, Ignored, KeyRules, Lifetimes, MapTrigger, PairTrigger, QueryOrder, QueryRule,
    StaleRules, Statuses, Windows,
};

/// The tables that are inherited key by key; every other value is replaced as a whole.
pub(crate) const JOINED: [&str; 11] = [
    "files",
    "stale",
    "range",
    "bypass",
    "refresh",
    "no_store",
    "limits",
    "key",
    "request_headers",
    "response_headers",
    "error_pages",
];

impl Rules {
    /// These rules, completed from `base`.
    pub(crate) fn inherit(&self, base: &Rules) -> Rules {
        Rules {
            upstream: nearest(&self.upstream, &base.upstream),
            root: nearest(&self.root, &base.root),
            fallback: nearest(&self.fallback, &base.fallback),
            files: joined(&self.files, &base.files, join_files),
            pick: nearest(&self.pick, &base.pick),
            host: nearest(&self.host, &base.host),
            ttl: nearest(&self.ttl, &base.ttl),
            ttl_override: nearest(&self.ttl_override, &base.ttl_override),
            browser_ttl: self.browser_ttl.or(base.browser_ttl),
            stale: joined(&self.stale, &base.stale, |near, far| Stale {
                while_revalidate: near.while_revalidate.or(far.while_revalidate),
                if_error: near.if_error.or(far.if_error),
                if_unreachable: near.if_unreachable.or(far.if_unreachable),
                if_status: nearest(&near.if_status, &far.if_status),
            }),
            revalidation_wait: self.revalidation_wait.or(base.revalidation_wait),
            range: joined(&self.range, &base.range, |near, far| Range {
                chunk: near.chunk.or(far.chunk),
                fill: near.fill.or(far.fill),
                without_validator: near.without_validator.or(far.without_validator),
                ahead: near.ahead.or(far.ahead),
                parallel: near.parallel.or(far.parallel),
            }),
            ignore: nearest(&self.ignore, &base.ignore),
            show_key: self.show_key.or(base.show_key),
            show_tags: self.show_tags.or(base.show_tags),
            bypass: joined(&self.bypass, &base.bypass, join_triggers),
            refresh: joined(&self.refresh, &base.refresh, join_triggers),
            no_store: joined(&self.no_store, &base.no_store, join_triggers),
            vary: nearest(&self.vary, &base.vary),
            allow: nearest(&self.allow, &base.allow),
            deny: nearest(&self.deny, &base.deny),
            limits: joined(&self.limits, &base.limits, |near, far| RouteLimits {
                body: near.body.or(far.body),
                body_rate: near.body_rate.or(far.body_rate),
                head: near.head.or(far.head),
                fields: near.fields.or(far.fields),
            }),
            purge: nearest(&self.purge, &base.purge),
            rate: nearest(&self.rate, &base.rate),
            rewrite: nearest(&self.rewrite, &base.rewrite),
            back: nearest(&self.back, &base.back),
            key: joined(&self.key, &base.key, |near, far| Key {
                query: nearest(&near.query, &far.query),
                headers: nearest(&near.headers, &far.headers),
                cookies: nearest(&near.cookies, &far.cookies),
                path: near.path.or(far.path),
                values: nearest(&near.values, &far.values),
            }),
            cookies: nearest(&self.cookies, &base.cookies),
            set_cookie: nearest(&self.set_cookie, &base.set_cookie),
            client_directives: self.client_directives.or(base.client_directives),
            close_delimited: self.close_delimited.or(base.close_delimited),
            heuristics: self.heuristics.or(base.heuristics),
            errors: self.errors.or(base.errors),
            surrogate: self.surrogate.or(base.surrogate),
            min_uses: nearest(&self.min_uses, &base.min_uses),
            head: self.head.or(base.head),
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
        let rate = self.rate.as_ref()?.table();
        let limit = rate.limit.as_ref().map(|limit| match limit {
            RateLimit::Fixed(rate) => ResolvedLimit::Fixed(rate.0),
            RateLimit::Chosen(by) => ResolvedLimit::Chosen(by.value().clone()),
        });
        let resolved = ResolvedRate {
            limit,
            burst_bytes: rate.burst.map_or(0, |burst| burst.0),
            query: rate.query.as_ref().map(|name| name.0.clone()),
            query_max: rate.query_max.map(|max| max.0),
            media: rate.media,
        };
        let holds_back = resolved.limit.is_some() || resolved.query.is_some() || resolved.media.is_some();
        holds_back.then_some(resolved)
    }

    /// Which clients get an answer.
    pub(crate) fn access(&self) -> ResolvedAccess {
        ResolvedAccess { allow: self.allow.clone(), deny: self.deny.clone().unwrap_or_default() }
    }

    /// The networks that conditions name.
    pub(crate) fn clients(&self) -> ResolvedClients {
        let of = |triggers: &Option<Triggers>| {
            triggers.as_ref().and_then(|triggers| triggers.clients.clone()).unwrap_or_default()
        };
        ResolvedClients { bypass: of(&self.bypass), refresh: of(&self.refresh), no_store: of(&self.no_store) }
    }

    /// What is said of responses' cookies by name.
    fn named_cookies(&self) -> impl Iterator<Item = &NamedCookies> {
        self.set_cookie.iter().filter_map(|rule| match rule {
            SetCookieRule::ByName(named) => Some(named),
            SetCookieRule::All(_) => None,
        })
    }

    /// The caching rules in the policy's form.
    pub(crate) fn cache_rules(&self) -> CacheRules {
        let stale = self.stale.clone().unwrap_or_default();
        CacheRules {
            ttl: lifetimes(self.ttl.as_ref()),
            ttl_override: lifetimes(self.ttl_override.as_ref()),
            browser_ttl: self.browser_ttl.map(|ttl| ttl.0),
            stale: StaleRules {
                while_revalidate: stale.while_revalidate.map(|window| window.0),
                if_error: stale.if_error.map(|window| window.0),
                if_unreachable: stale.if_unreachable.map(|window| window.0),
                if_status: Windows(by_status(&stale.if_status.unwrap_or_default())),
            },
            cookies: cookie_rule(self.cookies.as_ref()),
            stripped_cookies: self
                .named_cookies()
                .flat_map(|named| &named.strip)
                .flat_map(|names| texts(names))
                .collect(),
            cookie_flags: self.named_cookies().flat_map(|named| &named.flags).flatten().map(flags).collect(),
            ignore: ignored(self.ignore.as_ref()),
            session_cookie: None,
            own_cookies: Arc::default(),
            set_cookie: match self.set_cookie {
                None | Some(SetCookieRule::ByName(_) | SetCookieRule::All(SetCookie::NoStore)) => {
                    weir_policy::SetCookie::NoStore
                }
                Some(SetCookieRule::All(SetCookie::Strip)) => weir_policy::SetCookie::Strip,
                Some(SetCookieRule::All(SetCookie::Store)) => weir_policy::SetCookie::Store,
            },
            bypass: triggers(self.bypass.as_ref()),
            refresh: triggers(self.refresh.as_ref()),
            no_store: triggers(self.no_store.as_ref()),
            vary_ignored: self.vary.iter().flat_map(|vary| &vary.ignore).map(|name| name.0.clone()).collect(),
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
            min_uses: min_uses(self.min_uses.as_ref()),
            head: match self.head {
                None | Some(HeadRequests::Pass) => weir_policy::HeadRequests::Pass,
                Some(HeadRequests::Fill) => weir_policy::HeadRequests::Fill,
            },
            key: key_rules(self.key.as_ref(), self.rate.as_ref()),
        }
    }
}

fn min_uses(given: Option<&MinUses>) -> weir_policy::MinUses {
    let (memory, volume) = match given {
        None => (None, None),
        Some(MinUses::Stored(memory)) => (Some(*memory), None),
        Some(MinUses::Each(EachMinUses { memory, volume })) => (*memory, *volume),
    };
    weir_policy::MinUses { memory: memory.unwrap_or(1), volume: volume.unwrap_or(1) }
}

fn lifetimes(lifetime: Option<&Lifetime>) -> Lifetimes {
    match lifetime {
        None => Lifetimes::default(),
        Some(Lifetime::Plain(lifetime)) => Lifetimes::plain(lifetime.0),
        Some(Lifetime::ByStatus(table)) => Lifetimes(by_status(table)),
    }
}

/// The entries of a table by status.
fn by_status(table: &BTreeMap<String, Duration>) -> Vec<(Statuses, time::Duration)> {
    let entries = |(key, time): (&String, &Duration)| {
        let time = time.0;
        statuses(key).into_iter().map(move |of| (of, time))
    };
    table.iter().flat_map(entries).collect()
}

fn ignored(ignore: Option<&Ignore>) -> Ignored {
    let mut ignored = Ignored::default();
    let mut add = |of, list: &[IgnoredDirective]| {
        let directives = list.iter().map(|directive| match directive {
            IgnoredDirective::NoStore => weir_policy::IgnoredDirective::NoStore,
            IgnoredDirective::Private => weir_policy::IgnoredDirective::Private,
            IgnoredDirective::NoCache => weir_policy::IgnoredDirective::NoCache,
            IgnoredDirective::MustRevalidate => weir_policy::IgnoredDirective::MustRevalidate,
        });
        let directives: Vec<_> = directives.collect();
        ignored.add(of, &directives);
    };
    match ignore {
        None => {}
        Some(Ignore::All(list)) if list.is_empty() => {}
        Some(Ignore::All(list)) => add(Statuses::Any, list),
        Some(Ignore::ByStatus(table)) => {
            for (key, list) in table {
                statuses(key).into_iter().for_each(|of| add(of, list));
            }
        }
    }
    ignored
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

fn join_files(near: &FilesRules, far: &FilesRules) -> FilesRules {
    FilesRules {
        index: nearest(&near.index, &far.index),
        listing: near.listing.or(far.listing),
        hidden: near.hidden.or(far.hidden),
        precompressed: near.precompressed.or(far.precompressed),
        symlinks: near.symlinks.or(far.symlinks),
    }
}

/// An empty table undoes the inherited one.
fn join_triggers(near: &Triggers, far: &Triggers) -> Triggers {
    if *near == Triggers::default() {
        return Triggers::default();
    }
    Triggers {
        cookies: nearest(&near.cookies, &far.cookies),
        query: nearest(&near.query, &far.query),
        headers: nearest(&near.headers, &far.headers),
        paths: nearest(&near.paths, &far.paths),
        methods: nearest(&near.methods, &far.methods),
        clients: nearest(&near.clients, &far.clients),
        map: nearest(&near.map, &far.map),
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

fn cookie_rule(cookies: Option<&Cookies>) -> CookieRule {
    match cookies {
        Some(Cookies { keep: Some(keep), .. }) => CookieRule::Keep(texts(keep)),
        Some(Cookies { drop: Some(drop), .. }) if !drop.is_empty() => CookieRule::Drop(texts(drop)),
        _ => CookieRule::All,
    }
}

fn flags(flags: &CookieFlags) -> FlagRule {
    let add = flags.add.iter().map(|flag| match flag {
        AddedFlag::Secure => Flag::Secure,
        AddedFlag::HttpOnly => Flag::HttpOnly,
        AddedFlag::SameSiteStrict => Flag::SameSiteStrict,
        AddedFlag::SameSiteLax => Flag::SameSiteLax,
        AddedFlag::SameSiteNone => Flag::SameSiteNone,
        AddedFlag::Partitioned => Flag::Partitioned,
    });
    let remove = flags.remove.iter().map(|flag| match flag {
        RemovedFlag::Secure => "Secure",
        RemovedFlag::HttpOnly => "HttpOnly",
        RemovedFlag::SameSite => "SameSite",
        RemovedFlag::Partitioned => "Partitioned",
    });
    FlagRule { cookies: texts(&flags.cookies), add: add.collect(), remove: remove.collect() }
}

fn texts(names: &[NameGlob]) -> Vec<String> {
    names.iter().map(|name| name.0.clone()).collect()
}

fn triggers(triggers: Option<&Triggers>) -> weir_policy::Triggers {
    let Some(triggers) = triggers else { return weir_policy::Triggers::default() };
    weir_policy::Triggers {
        cookies: triggers.cookies.iter().flatten().map(pair).collect(),
        query: triggers.query.iter().flatten().map(pair).collect(),
        methods: triggers.methods.iter().flatten().map(|method| method.0.clone()).collect(),
        headers: triggers
            .headers
            .iter()
            .flatten()
            .map(|field| HeaderTrigger { name: field.name.0.clone(), value: field.value.clone() })
            .collect(),
        paths: triggers.paths.iter().flatten().map(|path| path.0.clone()).collect(),
        maps: triggers
            .map
            .iter()
            .flatten()
            .map(|map| MapTrigger { name: map.name.clone(), result: map.result.clone() })
            .collect(),
    }
}

fn pair(pair: &PairMatch) -> PairTrigger {
    PairTrigger { name: pair.name.0.clone(), value: pair.value.clone() }
}

/// The parameter that asks for a rate is not part of an object: it is dropped like those of `drop`, unless
/// `keep` names it.
fn key_rules(key: Option<&Key>, rate: Option<&RateRule>) -> KeyRules {
    let asks = rate.and_then(|rate| rate.table().query).map(|name| name.0);
    let key = key.cloned().unwrap_or_default();
    let (query, is_unkeyed) = match key.query {
        Some(KeyQuery::Word(QueryWord::None)) => (Query::default(), true),
        Some(KeyQuery::ByName(query)) => (query, false),
        None => (Query::default(), false),
    };
    let names = |list: Vec<crate::value::NameGlob>| list.into_iter().map(|name| name.0);
    let mut rules = KeyRules {
        order: if query.sort { QueryOrder::Sorted } else { QueryOrder::Received },
        query: match (query, asks) {
            (_, asks) if is_unkeyed => QueryRule::Unkeyed(asks.into_iter().collect()),
            (Query { keep: Some(keep), .. }, _) if keep.is_empty() => QueryRule::None,
            (Query { keep: Some(keep), .. }, _) => QueryRule::Keep(names(keep).collect()),
            (Query { drop: None, .. }, None) => QueryRule::All,
            (Query { drop, .. }, asks) => {
                QueryRule::Drop(names(drop.unwrap_or_default()).chain(asks).collect())
            }
        },
        headers: key.headers.into_iter().flatten().map(|name| name.0).collect(),
        cookies: key.cookies.into_iter().flatten().map(|name| name.0).collect(),
        ..KeyRules::default()
    };
    for placeholder in key.values.iter().flatten().flat_map(|value| value.0.placeholders()) {
        match &placeholder.what {
            // A field or cookie as it is, by its shorter name.
            What::Header(name) if !placeholder.is_filtered() => rules.headers.push(name.clone()),
            What::Cookie(name) if !placeholder.is_filtered() => rules.cookies.push(name.clone()),
            _ => rules.values.push(placeholder.clone()),
        }
    }
    rules
}
