//! `[upstream.NAME]` as the settings of `weir-upstream`. It must not connect to anything.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use weir_config::model::{
    self, AffinityBy, Agent, Check, CheckMethod, CheckRule, Config, Eject, OriginEntry, Resolve, Retry,
    RetryOn, SameSite, Tls, Upstream,
};
use weir_config::session_keys;
use weir_config::value::{HostRule, OriginScheme, OriginUrl, SessionOf, Size};
use weir_upstream::affinity::{self, Affinity, By, Key, OwnCookie, Secure};
use weir_upstream::{
    AgentSettings, Bounds, CheckAsk, CheckRequest, CheckSettings, ClientCertificate, Deciders, Ejection,
    OriginAddress, OriginSettings, ReportSettings, Retries, Role, Timeouts, TlsSettings, UpstreamSettings,
    Verify,
};

use super::picks::{WrittenPicks, picks};

/// All upstreams of a configuration, by name in order.
pub(super) fn settings(config: &Config, written: &WrittenPicks) -> Vec<UpstreamSettings> {
    let of = |(name, upstream): (&String, &Upstream)| UpstreamSettings {
        deciders: written.deciders(&upstream.pick),
        ..one(name, upstream, config)
    };
    config.upstream.iter().map(of).collect()
}

/// The cookies that Weir sets itself, for any upstream.
pub(super) fn own_cookies(config: &Config) -> Arc<[String]> {
    let name = |(name, upstream): (&String, &Upstream)| {
        let affinity = upstream.affinity.as_ref()?;
        affinity.cookie_name(name).filter(|_| affinity.by == AffinityBy::Own)
    };
    config.upstream.iter().filter_map(name).collect()
}

fn one(name: &str, upstream: &Upstream, config: &Config) -> UpstreamSettings {
    let bytes = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
    UpstreamSettings {
        name: name.to_owned(),
        origins: upstream.origins.iter().map(origin).collect(),
        picks: picks(&upstream.pick, config),
        affinity: upstream.affinity.as_ref().map(|affinity| sessions(name, affinity)),
        timeouts: Timeouts {
            connect: upstream.connect.0,
            first_byte: upstream.first_byte.0,
            between_bytes: upstream.between_bytes.0,
            pool_idle: upstream.pool_idle.0,
            queue: upstream.queue_wait.0,
            tunnel_idle: config.limits.tunnel_idle.0,
        },
        bounds: Bounds {
            connections_max: upstream.connections as usize,
            queue_max: upstream.queue as usize,
            streams_max: upstream.streams as usize,
            client_share_percent: upstream.client_share as usize,
            head_bytes_max: bytes(upstream.head),
            fields_max: upstream.fields as usize,
            ..Bounds::default()
        },
        ejection: ejection(upstream),
        retries: retries(&upstream.retry),
        tls: tls(&upstream.tls),
        resolve_every: upstream.dns_refresh.0,
        each_by: (upstream.resolve == Resolve::Each)
            .then(|| upstream.nameservers.iter().map(|server| server.0).collect()),
        check: upstream.check.as_ref().map(|rule| check(rule, upstream)),
        agent: upstream.agent.as_ref().map(agent),
        deciders: Deciders::default(),
        sources: upstream.metrics.iter().map(|name| name.as_str().into()).collect(),
        reports: reports(upstream, config),
    }
}

/// The first of its sources that is the origins' responses.
fn reports(upstream: &Upstream, config: &Config) -> Option<ReportSettings> {
    let mut sources = upstream.metrics.iter().filter_map(|name| Some((name, config.metrics.get(name)?)));
    let (name, metrics) = sources.find(|(_, metrics)| metrics.orca)?;
    Some(ReportSettings { source: name.as_str().into(), stale_after: metrics.stale_after() })
}

fn check(rule: &CheckRule, upstream: &Upstream) -> CheckSettings {
    let (check, is_request) = rule.table();
    let ask =
        if is_request { CheckAsk::Request(Box::new(request(&check, upstream))) } else { CheckAsk::Connect };
    CheckSettings { ask, every: check.every.0, timeout: check.timeout.0, rise: check.rise, fall: check.fall }
}

fn request(check: &Check, upstream: &Upstream) -> CheckRequest {
    let fixed = match &upstream.host {
        HostRule::Fixed(host) => Some(host.clone()),
        HostRule::Client | HostRule::Origin => None,
    };
    let headers = check.headers.iter().filter_map(|(name, value)| {
        // Both were parsed when the file was loaded.
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(&value.0).ok()?))
    });
    CheckRequest {
        method: match check.method {
            CheckMethod::Get => Method::GET,
            CheckMethod::Head => Method::HEAD,
            CheckMethod::Options => Method::OPTIONS,
        },
        target: check.path.0.clone().into(),
        host: check.host.as_ref().map(|host| host.0.clone()).or(fixed),
        headers: headers.collect(),
        statuses: check.status.0.clone(),
        body: check.body.clone().unwrap_or_default().into(),
    }
}

fn agent(agent: &Agent) -> AgentSettings {
    AgentSettings {
        port: agent.port,
        send: agent.send.clone().unwrap_or_default().into(),
        every: agent.every.0,
    }
}

fn retries(retry: &Retry) -> Retries {
    let on = |on: &RetryOn| match on {
        RetryOn::Connect => weir_upstream::RetryOn::Connect,
        RetryOn::Closed => weir_upstream::RetryOn::Closed,
        RetryOn::Timeout => weir_upstream::RetryOn::Timeout,
        RetryOn::BadGateway => weir_upstream::RetryOn::BadGateway,
        RetryOn::Unavailable => weir_upstream::RetryOn::Unavailable,
        RetryOn::GatewayTimeout => weir_upstream::RetryOn::GatewayTimeout,
    };
    Retries {
        on: retry.on.iter().map(on).collect(),
        times: retry.times,
        budget_percent: retry.budget.0,
        hedge_per_mille: retry.hedge.map(|hedge| hedge.0),
    }
}

fn ejection(upstream: &Upstream) -> Ejection {
    let eject: &Eject = &upstream.eject;
    Ejection {
        failures: eject.failures,
        window: eject.within.0,
        backoff: eject.time.0,
        backoff_max: eject.time_max.0,
        statuses: eject.status.as_ref().map_or_else(Vec::new, |ranges| ranges.0.clone()),
        share_percent: eject.share.map(|share| share.0),
        least: eject.least,
        slow: eject.slow,
        at_most_percent: eject.at_most.0,
        slow_start: upstream.slow_start.map_or(Duration::ZERO, |time| time.0),
    }
}

/// What it says about sessions. Keys that can no longer be read are none, which the upstream refuses.
fn sessions(upstream: &str, affinity: &model::Affinity) -> Affinity {
    let cookie = || affinity.cookie_name(upstream).unwrap_or_default();
    let by = match (affinity.by, &affinity.of) {
        (AffinityBy::Own, _) => By::Own(OwnCookie {
            name: cookie(),
            keys: keys(affinity),
            attributes: attributes(affinity),
            secure: match affinity.secure {
                Some(true) => Secure::Always,
                Some(false) => Secure::Never,
                None if affinity.same_site == SameSite::None => Secure::Always,
                None => Secure::AsSet,
            },
            lifetime: affinity.lifetime.map(|lifetime| lifetime.0),
        }),
        (AffinityBy::Hash, Some(SessionOf::Cookie(name))) => {
            By::Hash(affinity::SessionOf::Cookie(name.0.clone()))
        }
        (AffinityBy::Hash, Some(SessionOf::Header(name))) => {
            By::Hash(affinity::SessionOf::Header(name.0.clone()))
        }
        // The check of the configuration makes sure that there is a part to hash.
        (AffinityBy::Suffix | AffinityBy::Hash, _) => {
            let parameter = affinity.parameter.as_ref().map(|name| name.0.clone());
            By::Suffix {
                parameter: parameter.unwrap_or_else(|| cookie().to_ascii_lowercase()),
                cookie: cookie(),
            }
        }
    };
    Affinity { by, bypass: affinity.bypass }
}

fn keys(affinity: &model::Affinity) -> Vec<Key> {
    let read = affinity.key_file.as_ref().map(|file| session_keys::read(&file.0));
    let lines = read.transpose().ok().flatten().unwrap_or_default();
    lines.iter().filter_map(|line| Key::of(line.as_bytes())).collect()
}

/// What follows the value of Weir's own cookie.
fn attributes(affinity: &model::Affinity) -> String {
    let mut text = format!("; Path={}", affinity.path);
    if let Some(domain) = &affinity.domain {
        text.push_str("; Domain=");
        text.push_str(domain);
    }
    if affinity.http_only {
        text.push_str("; HttpOnly");
    }
    text.push_str(match affinity.same_site {
        SameSite::Lax => "; SameSite=Lax",
        SameSite::Strict => "; SameSite=Strict",
        SameSite::None => "; SameSite=None",
    });
    text
}

fn origin(entry: &OriginEntry) -> OriginSettings {
    OriginSettings {
        address: address(entry.url()),
        weight: entry.weight(),
        role: if entry.is_backup() { Role::Backup } else { Role::Primary },
        at: None,
        node: entry.id().map(str::to_owned),
    }
}

fn address(url: &OriginUrl) -> OriginAddress {
    let (host, port) = (url.host.clone(), url.port);
    match url.scheme {
        OriginScheme::Http => OriginAddress::Http { host, port },
        OriginScheme::Https => OriginAddress::Https { host, port },
        OriginScheme::Unix => OriginAddress::Unix { path: host.into() },
    }
}

fn tls(tls: &Tls) -> TlsSettings {
    TlsSettings {
        verify: match &tls.ca_file {
            _ if !tls.verify => Verify::Nothing,
            Some(file) => Verify::CaFile(file.0.clone()),
            None => Verify::Native,
        },
        server_name: tls.sni.clone(),
        client_certificate: tls.client_cert.as_ref().zip(tls.client_key.as_ref()).map(
            |(certificate, key)| ClientCertificate { certificate: certificate.0.clone(), key: key.0.clone() },
        ),
    }
}
