//! The families of origins and upstreams: requests, picks, ejections, retries, hedges, checks, agents and
//! sessions.

use super::family::{Buckets, Family, Labels, Series};
use super::row::{Row, count, level, one_if, rows};
use crate::data_plane::{HedgesState, Inventory, OriginState, SessionsState, UpstreamState};
use smallvec::smallvec;

const ORIGINS: &[Row<OriginState>] = &[
    level("weir_origin_available", "1 while the origin takes its share of requests.", |origin| {
        one_if(origin.available)
    }),
    level("weir_origin_connections_open", "Open connections to the origin.", |origin| {
        origin.connections_open as f64
    }),
    level("weir_origin_connections_idle", "Idle connections to the origin.", |origin| {
        origin.connections_idle as f64
    }),
    level("weir_origin_streams", "Open tunnels, event streams and idle logins of the origin.", |origin| {
        origin.streams as f64
    }),
    level("weir_origin_requests_queued", "Requests that wait for a connection to the origin.", |origin| {
        origin.queued as f64
    }),
    count("weir_origin_requests", "Requests sent to the origin, each retry counted.", |origin| {
        origin.requests
    }),
    count("weir_origin_failures", "Requests that the origin failed.", |origin| origin.failures),
    count("weir_origin_retries", "Requests tried again after the origin failed them.", |origin| {
        origin.retries
    }),
    count("weir_origin_connections_opened", "Connections to the origin opened.", |origin| {
        origin.connections_opened
    }),
    count("weir_origin_connections_reused", "Requests sent on a reused connection.", |origin| {
        origin.connections_reused
    }),
    count(
        "weir_origin_busy",
        "Requests turned away because all connections to the origin were in use, or that gave way to other \
         clients'.",
        |origin| origin.busy,
    ),
];

const UPSTREAMS: &[Row<UpstreamState>] = &[
    level("weir_upstream_panic", "1 while too many origins are ejected, so that all are used.", |upstream| {
        one_if(upstream.panic)
    }),
    count("weir_upstream_retries_refused", "Requests not sent again for want of budget.", |upstream| {
        upstream.retries_refused
    }),
    count("weir_upstream_panics", "Times that too many origins were ejected.", |upstream| upstream.panics),
];

const HEDGES: &[Row<HedgesState>] = &[
    count(
        "weir_upstream_hedges_sent",
        "Requests sent to a second origin because the first was slow.",
        |hedges| hedges.sent,
    ),
    count("weir_upstream_hedges_won", "Hedges that answered before the first origin.", |hedges| hedges.won),
    count("weir_upstream_hedges_refused", "Hedges not sent for want of budget.", |hedges| hedges.refused),
];

const SESSIONS: &[Row<SessionsState>] = &[
    count("weir_sessions_created", "Sessions that began with a passed response.", |sessions| {
        sessions.created
    }),
    count("weir_sessions_kept", "Passed requests of sessions that their origin answered.", |sessions| {
        sessions.kept
    }),
    count(
        "weir_sessions_moved",
        "Passed requests of sessions whose origin was gone: another one answered.",
        |sessions| sessions.moved,
    ),
    count(
        "weir_sessions_refused",
        "Passed requests that said of a session what is not Weir's, is out of date, or names no origin.",
        |sessions| sessions.refused,
    ),
];

/// The families of origins and upstreams.
pub(super) fn origins(inventory: &Inventory) -> Vec<Family<'_>> {
    let mut families = Vec::new();
    rows(&mut families, ORIGINS, &["upstream", "origin"], &each_origin(inventory));
    families.push(picks(inventory));
    families.push(ejections(inventory));
    let upstreams: Vec<_> =
        inventory.upstreams.iter().map(|upstream| (smallvec![upstream.name.as_str()], upstream)).collect();
    rows(&mut families, UPSTREAMS, &["upstream"], &upstreams);
    families.extend(checks(inventory));
    rows(&mut families, HEDGES, &["upstream"], &each_hedging(inventory));
    rows(&mut families, SESSIONS, &["upstream"], &each_affinity(inventory));
    families.push(retries(inventory));
    families.extend(asked(inventory));
    families
}

/// What scripts and distributors have said.
fn asked(inventory: &Inventory) -> [Family<'_>; 2] {
    let outcomes = inventory.picks.iter().flat_map(|pick| {
        let labels = |outcome| smallvec![pick.name.as_str(), pick.kind.as_str(), outcome];
        pick.outcomes.iter().map(move |(outcome, count)| (labels(outcome.as_str()), *count))
    });
    let troubled = inventory
        .picks
        .iter()
        .map(|pick| (smallvec![pick.name.as_str(), pick.kind.as_str()], one_if(pick.trouble.is_some())));
    [
        Family {
            name: "weir_pick_outcomes",
            help: "Requests that a script or a distributor was asked about, by what came of it.",
            labels: &["pick", "kind", "outcome"],
            series: Series::Counts(outcomes.collect()),
        },
        Family {
            name: "weir_pick_troubled",
            help: "1 while a script or a distributor does not decide.",
            labels: &["pick", "kind"],
            series: Series::Levels(troubled.collect()),
        },
    ]
}

/// Retries by reason.
fn retries(inventory: &Inventory) -> Family<'_> {
    let each = inventory.upstreams.iter().flat_map(|upstream| {
        let labels = |reason| smallvec![upstream.name.as_str(), reason];
        upstream.retries.iter().map(move |(reason, count)| (labels(reason.as_str()), *count))
    });
    Family {
        name: "weir_upstream_retries",
        help: "Requests sent again, by reason.",
        labels: &["upstream", "reason"],
        series: Series::Counts(each.collect()),
    }
}

/// Ejections by cause.
fn ejections(inventory: &Inventory) -> Family<'_> {
    let each = each_origin(inventory).into_iter().flat_map(|(labels, origin)| {
        origin.ejections_by_cause.iter().map(move |(cause, count)| (with(&labels, cause), *count))
    });
    Family {
        name: "weir_origin_ejections",
        help: "Times that the origin was ejected, by cause: failures, status, share, slow.",
        labels: &["upstream", "origin", "cause"],
        series: Series::Counts(each.collect()),
    }
}

fn each_origin(inventory: &Inventory) -> Vec<(Labels<'_>, &OriginState)> {
    let all = inventory.upstreams.iter().flat_map(|upstream| {
        upstream
            .origins
            .iter()
            .map(|origin| (smallvec![upstream.name.as_str(), origin.name.as_str()], origin))
    });
    all.collect()
}

fn picks(inventory: &Inventory) -> Family<'_> {
    let counts = each_origin(inventory).into_iter().flat_map(|(names, origin)| {
        origin.picks.iter().map(move |picks| {
            let labels = names.iter().copied().chain([picks.pick.as_str(), picks.reason.as_str()]);
            (labels.collect(), picks.count)
        })
    });
    Family {
        name: "weir_origin_picks",
        help: "Requests and retries for which the origin was picked, by pick and reason.",
        labels: &["upstream", "origin", "pick", "reason"],
        series: Series::Counts(counts.collect()),
    }
}

/// Labels, and one more.
fn with<'a>(labels: &[&'a str], word: &'a str) -> Labels<'a> {
    labels.iter().copied().chain([word]).collect()
}

/// What checks and agents have said.
fn checks(inventory: &Inventory) -> Vec<Family<'_>> {
    let all = each_origin(inventory);
    let standings = all.iter().map(|(labels, origin)| (with(labels, &origin.standing), 1.0));
    let checked = || all.iter().filter_map(|(labels, origin)| Some((labels, origin.check.as_ref()?)));
    let results = checked().flat_map(|(labels, check)| {
        let results = [("passed", check.passed), ("failed", check.failed)];
        results.map(|(word, count)| (with(labels, word), count))
    });
    let took = checked().map(|(labels, check)| {
        let up_to = check.took_up_to.iter().map(|bound| (bound.s, bound.checks)).collect();
        (labels.clone(), Buckets { up_to, count: check.passed + check.failed, sum: check.took_s })
    });
    let agents = all.iter().filter_map(|(labels, origin)| Some((labels, origin.agent.as_ref()?)));
    let lines = agents.flat_map(|(labels, agent)| {
        let results = [
            ("understood", agent.understood),
            ("partly", agent.partly),
            ("broken", agent.broken),
            ("unreachable", agent.unreachable),
        ];
        results.map(|(word, count)| (with(labels, word), count))
    });
    vec![
        Family {
            name: "weir_origin_standing",
            help: "1 for how the origin stands: ready, ejected, down, draining, maintenance.",
            labels: &["upstream", "origin", "standing"],
            series: Series::Levels(standings.collect()),
        },
        Family {
            name: "weir_origin_checks",
            help: "Checks of the origin, by result.",
            labels: &["upstream", "origin", "result"],
            series: Series::Counts(results.collect()),
        },
        Family {
            name: "weir_origin_check_duration_seconds",
            help: "How long checks of the origin took.",
            labels: &["upstream", "origin"],
            series: Series::Histograms(took.collect()),
        },
        Family {
            name: "weir_origin_agent_lines",
            help: "Connections to the origin's agent by what came of them: a line that was understood, one \
                   with a word that means nothing (partly), none that was whole (broken), no connection \
                   (unreachable).",
            labels: &["upstream", "origin", "result"],
            series: Series::Counts(lines.collect()),
        },
    ]
}

fn each_hedging(inventory: &Inventory) -> Vec<(Labels<'_>, &HedgesState)> {
    let all = inventory.upstreams.iter();
    all.filter_map(|upstream| Some((smallvec![upstream.name.as_str()], upstream.hedges.as_ref()?))).collect()
}

fn each_affinity(inventory: &Inventory) -> Vec<(Labels<'_>, &SessionsState)> {
    let all = inventory.upstreams.iter();
    all.filter_map(|upstream| Some((smallvec![upstream.name.as_str()], upstream.sessions.as_ref()?)))
        .collect()
}
