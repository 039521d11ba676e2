//! What `weir explain` is told: the edge's explanation with what the configuration says of the route, and
//! what a client of TLS meets before its request. It must not decide anything.

use std::ops::Range;

use weir_config::Loaded;
use weir_config::model::ClientCertificateMode;
use weir_control::{
    Explained, ExplainedGate, ExplainedTls, HeldRange, OriginChoice, OriginConsidered, OriginRequest,
    RetainedUntil, SelectingField, Setting, StoredVariant,
};

use crate::certificates::Keeper;

/// The most ranges of one body that are shown.
const HELD_RANGES_MAX: usize = 1000;

/// What a client meets that asks for the host of an `https` URL; `None` for another URL.
pub(crate) fn tls(
    url: &str,
    site: Option<&str>,
    loaded: &Loaded,
    certificates: &Keeper,
) -> Option<ExplainedTls> {
    let url: http::Uri = url.parse().ok()?;
    let host = url.host().filter(|_| url.scheme_str() == Some("https"))?.to_ascii_lowercase();
    let listeners = loaded.config.listen.iter().filter(|listen| listen.tls);
    let listeners: Vec<String> = listeners.map(|listen| listen.address.to_string()).collect();
    let (certificate, covered) = match certificates.for_host(&host) {
        Some((certificate, covered)) if !listeners.is_empty() => (Some(certificate), covered),
        _ => (None, false),
    };
    let site = loaded.resolved().iter().find(|of| Some(&*of.name) == site);
    let client_certificate = site.and_then(|site| site.client_certificate.as_ref()).map(|asked| {
        match asked.mode {
            ClientCertificateMode::Required => "required",
            ClientCertificateMode::Optional => "optional",
        }
        .to_owned()
    });
    Some(ExplainedTls { listeners, certificate, covered, client_certificate })
}

/// The edge's explanation, with what the configuration says.
pub(crate) fn explained(explanation: weir_edge::Explanation, loaded: &Loaded) -> Explained {
    let gate = |(name, asks): (&str, &str)| ExplainedGate { name: name.to_owned(), asks: asks.to_owned() };
    let settings = explanation.place.as_deref().map_or_else(Vec::new, |place| settings(loaded, place));
    Explained {
        site: explanation.site,
        route: explanation.route,
        defined_at: explanation.place,
        settings,
        maps: explanation.maps,
        upstream: explanation.upstream,
        key: explanation.key,
        query_dropped: explanation.dropped,
        rewritten: explanation.rewritten,
        cookies_dropped: explanation.cookies_dropped,
        cookies_not_in_key: explanation.cookies_not_in_key,
        not_in_key: explanation.not_in_key,
        origin_request: explanation.asked.map(|asked| OriginRequest {
            line: asked.line,
            headers: asked.headers,
            lost: asked.lost,
            choice: asked.choice.map(choice),
        }),
        gates: explanation.gates.into_iter().map(gate).collect(),
        verdict: explanation.verdict.word().to_owned(),
        tls: None,
        reason: explanation.reason.to_owned(),
        explanation: explanation.because,
        cache_status: explanation.cache_status,
        not_stored: explanation.not_stored.map(str::to_owned),
        failed: explanation.failed.map(str::to_owned),
        stored: explanation.stored.into_iter().map(variant).collect(),
        hint: explanation.hint.map(str::to_owned),
        bypass: explanation.bypass,
        refresh: explanation.refresh,
        no_store: explanation.no_store,
    }
}

/// Which origin would get the request.
fn choice(choice: weir_edge::OriginChoice) -> OriginChoice {
    let shown = |origin: weir_edge::OriginConsidered| OriginConsidered {
        name: origin.name.to_string(),
        share_percent: (origin.share * 1000.0).round() / 10.0,
        in_flight: origin.in_flight,
        why_not: origin.why_not,
    };
    OriginChoice {
        origin: choice.origin.map(|origin| origin.to_string()),
        pick: choice.pick.to_owned(),
        reason: choice.reason.to_owned(),
        asked: choice.asked,
        origins: choice.origins.into_iter().map(shown).collect(),
    }
}

/// What the configuration sets for the route at `place`.
fn settings(loaded: &Loaded, place: &str) -> Vec<Setting> {
    let shown = weir_config::show_json(loaded);
    let sites = shown.as_array().map(Vec::as_slice).unwrap_or_default();
    let routes = sites.iter().filter_map(|site| site["routes"].as_array()).flatten();
    let mut here = routes.filter(|route| route["place"] == place);
    let settings = here.next().map(|route| route["settings"].clone()).unwrap_or_default();
    serde_json::from_value(settings).unwrap_or_default()
}

fn variant(variant: weir_edge::StoredVariant) -> StoredVariant {
    let selecting = variant.selecting.into_iter();
    StoredVariant {
        selected: variant.selected,
        status: variant.status,
        age_s: variant.freshness.age.as_secs(),
        lifetime_s: variant.freshness.lifetime.as_secs(),
        source: variant.lifetime_from.to_owned(),
        retained: variant
            .retained_until
            .map(|until| RetainedUntil { until: weir_control::rfc3339(until), order: None }),
        ttl_left_s: variant.freshness.left_s(),
        while_revalidate_s: variant.freshness.while_revalidate.as_secs(),
        if_error_s: variant.freshness.if_error.as_secs(),
        if_unreachable_s: variant.if_unreachable.as_secs(),
        by_status: variant.by_status,
        flags: variant.marks.into_iter().map(str::to_owned).collect(),
        vary: selecting.map(|(field, value)| SelectingField { field, value }).collect(),
        tags: variant.tags,
        body_bytes: variant.length,
        held_bytes: length_of(&variant.held),
        held: held_ranges(variant.length, &variant.held),
        memory_bytes: variant.memory_bytes,
        volume: variant.volume.map(|volume| volume.to_string()),
        fields: variant.fields,
        etag: variant.etag,
    }
}

/// What is held of a body of which something is missing.
fn held_ranges(length: Option<u64>, held: &[Range<u64>]) -> Vec<HeldRange> {
    if length == Some(length_of(held)) {
        return Vec::new();
    }
    let ranges = held.iter().map(|run| HeldRange { first: run.start, last: run.end - 1 });
    ranges.take(HELD_RANGES_MAX).collect()
}

fn length_of(held: &[Range<u64>]) -> u64 {
    held.iter().map(|run| run.end - run.start).sum()
}
