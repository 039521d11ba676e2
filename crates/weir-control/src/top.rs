//! What `/v1/top` shows: what is asked for most, rates, volumes and jobs. One value, the same for JSON and
//! for people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_observe::{Observatory, Outcome, TopOrder, TopQuestion, TopRow, Traffic};

use crate::clock;
use crate::data_plane::VolumeUse;
use crate::jobs::JobShown;
use crate::query::TopWanted;
use crate::status::{quantile_ms, rfc3339};

/// What is asked for most, and what goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Top {
    /// When it was so, RFC 3339.
    pub at: String,
    /// The process.
    pub pid: u32,
    /// What is listed: `url`, `client`, `site` or `origin`.
    pub by: String,
    /// What the list is ordered by: `asked`, `missed`, `bytes` or `not-stored`.
    pub order: String,
    /// The span of time: `minute` or `hour`.
    pub window: String,
    /// How long that is at present.
    pub window_s: f64,
    /// The rows, the heaviest first.
    pub rows: Vec<TopShown>,
    /// What all weighs in the window, listed or not, by order; an estimate.
    pub totals: BTreeMap<String, u64>,
    /// Requests that the lists miss since the start, because there was no room for them.
    pub lost: u64,
    /// The last five seconds, of the whole Weir; absent for a token that is limited to sites.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<TrafficShown>,
    /// The window, of the whole Weir; absent for a token that is limited to sites.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficShown>,
    /// The volumes; absent for a token that is limited to sites.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeUse>,
    /// The jobs that the caller may see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobShown>,
}

/// A row of a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TopShown {
    /// The URL, the client's address, the site or the origin. Long URLs are cut.
    pub name: String,
    /// The site of a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Why it was not stored, in the order `not-stored`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Requests, or bytes in the order `bytes`; an estimate.
    pub count: u64,
    /// How far the truth may be from `count`, in 19 of 20 cases; 0 where all was counted.
    pub error: u64,
    /// The share in all that there was in the window.
    pub share: f64,
}

/// What was counted in a span of time. These figures are exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TrafficShown {
    /// How long the span is.
    pub span_s: f64,
    /// Finished requests in a second.
    pub requests_per_s: f64,
    /// By outcome, where there were some.
    pub outcomes: BTreeMap<String, OutcomeRate>,
    /// The share *from the cache*; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_cache: Option<f64>,
    /// Of the body bytes that clients got, the share that no origin had to send for it; below 0 where origins
    /// sent more. Absent where clients got nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<f64>,
    /// Body bytes sent to clients in a second.
    pub client_bytes_per_s: f64,
    /// Body bytes received from origins in a second.
    pub origin_bytes_per_s: f64,
    /// Requests sent to origins in a second.
    pub origin_requests_per_s: f64,
}

/// The requests of one outcome in a span of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OutcomeRate {
    /// How many.
    pub count: u64,
    /// In a second.
    pub per_s: f64,
    /// Half of them had their first byte sooner than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms_p50: Option<f64>,
    /// 99 of 100 had their first byte sooner than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms_p99: Option<f64>,
}

impl TrafficShown {
    fn of(traffic: &Traffic) -> TrafficShown {
        let span_s = traffic.span.as_secs_f64();
        let per_s = |count: u64| rounded(count as f64 / span_s.max(0.001));
        let outcomes = Outcome::ALL.iter().filter_map(|outcome| {
            let count = traffic.requests[*outcome as usize];
            let first_byte = &traffic.first_byte[*outcome as usize];
            let rate = OutcomeRate {
                count,
                per_s: per_s(count),
                first_byte_ms_p50: quantile_ms(first_byte, 0.5),
                first_byte_ms_p99: quantile_ms(first_byte, 0.99),
            };
            (count > 0).then(|| (outcome.word().to_owned(), rate))
        });
        let (clients, origins) = (traffic.client_bytes, traffic.origin_bytes);
        TrafficShown {
            span_s: rounded(span_s),
            requests_per_s: per_s(traffic.requests.iter().sum()),
            outcomes: outcomes.collect(),
            from_cache: Outcome::hit_ratio(&traffic.requests).map(fraction),
            offload: (clients > 0).then(|| fraction(1.0 - origins as f64 / clients as f64)),
            client_bytes_per_s: per_s(clients),
            origin_bytes_per_s: per_s(origins),
            origin_requests_per_s: per_s(traffic.origin_requests),
        }
    }
}

/// With one decimal.
fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A share with four decimals.
fn fraction(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

impl TopShown {
    fn of(row: TopRow, total: u64) -> TopShown {
        let share = if total == 0 { 0.0 } else { fraction(row.count as f64 / total as f64) };
        TopShown {
            name: row.name,
            site: row.site.map(|site| site.to_string()),
            why: Some(row.why.to_owned()).filter(|why| !why.is_empty()),
            count: row.count,
            error: row.error,
            share,
        }
    }
}

impl Top {
    /// What is wanted of the lists, of these sites alone where there are some; and the rates where it is of
    /// all.
    pub(crate) fn of(observatory: &Observatory, wanted: &TopWanted, sites: Option<Vec<String>>) -> Top {
        let TopWanted { by, order, window, limit, .. } = *wanted;
        let is_whole = sites.is_none();
        let asked = TopQuestion { by, order, window, limit, sites };
        let list = observatory.top(&asked);
        let total = |order: TopOrder| {
            let all = observatory.top(&TopQuestion { order, limit: 0, ..asked.clone() }).total;
            (order.word().to_owned(), all)
        };
        let totals = TopOrder::ALL.map(total).into_iter().collect();
        let (in_window, recent) = observatory.traffic(window);
        Top {
            at: rfc3339(clock::wall()),
            pid: std::process::id(),
            by: by.word().to_owned(),
            order: order.word().to_owned(),
            window: window.word().to_owned(),
            window_s: rounded(list.covered.as_secs_f64()),
            rows: list.rows.into_iter().map(|row| TopShown::of(row, list.total)).collect(),
            totals,
            lost: observatory.top_lost(),
            now: is_whole.then(|| TrafficShown::of(&recent)),
            traffic: is_whole.then(|| TrafficShown::of(&in_window)),
            volumes: Vec::new(),
            jobs: Vec::new(),
        }
    }
}
