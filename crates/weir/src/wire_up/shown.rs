//! What this process shows of itself: listeners, cache, volumes, upstreams, certificates.

use weir_config::Loaded;
use weir_config::model::{Listen, Protocol};
use weir_control::{
    CacheUse, CertificatesUse, HedgesState, Inventory, LedgerState, Listening, OriginState, PicksCount,
    SessionsState, UpstreamState,
};

use super::{Extent, Server};
use crate::{accounts, checked, content, metrics, volumes};

impl Server {
    /// What is there now.
    pub(super) fn shown(&self) -> Inventory {
        let Extent { sites, routes } = *self.extent.lock();
        let usage = self.edge.usage();
        let loaded = self.loaded.lock().clone();
        Inventory {
            plan: self.edge.plan().number,
            sites,
            routes,
            workers: self.edge.workers(),
            old_processes: self.before.shown(),
            listening: self
                .edge
                .listening()
                .iter()
                .map(|address| listening(&loaded, address.to_string()))
                .collect(),
            listeners: self.edge.listening().iter().map(ToString::to_string).collect(),
            cache: CacheUse {
                objects: usage.generations,
                memory_bytes: usage.used_bytes,
                memory_bytes_max: usage.limit_bytes,
                evicted: usage.evicted,
                not_admitted: self.edge.store().admission_usage().refused,
            },
            volumes: self.drives.reports().into_iter().map(volumes::told).collect(),
            content: content::in_use(&self.edge),
            ledger: self.ledger(),
            accounts: accounts::in_use(&self.accounts),
            upstreams: self.upstreams(),
            picks: self.picks.states(),
            sources: metrics::sources(&self.collector),
            certificates: self.certificates_in_use(),
        }
    }

    fn ledger(&self) -> LedgerState {
        let weir_store::LedgerState { number, durable, marks, failure } = self.edge.ledger();
        LedgerState { number, durable, marks, failure }
    }

    fn certificates_in_use(&self) -> CertificatesUse {
        let mut shown = self.certificates.in_use();
        self.ordering.add_to(&mut shown);
        shown
    }

    fn upstreams(&self) -> Vec<UpstreamState> {
        let all = self.edge.upstreams().into_iter().map(|upstream| {
            let (panic, panics) = (upstream.is_panicking, upstream.panics);
            let retries =
                upstream.retries.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
            let retries_refused = upstream.retries_refused;
            let hedges = upstream.hedges.map(|hedges| HedgesState {
                sent: hedges.sent,
                won: hedges.won,
                refused: hedges.refused,
            });
            let origins = upstream.origins.into_iter().map(|origin| OriginState {
                available: origin.standing.takes_share(),
                standing: origin.standing.word().to_owned(),
                why: origin.why,
                check: origin.check.map(checked::check),
                agent: origin.agent.map(checked::agent),
                ejected_s: origin.ejected_for.map(|left| left.as_secs()),
                name: origin.name,
                requests: origin.requests,
                failures: origin.failures,
                retries: origin.retries,
                connections_opened: origin.connects,
                connections_reused: origin.reuses,
                busy: origin.busy,
                ejections: origin.ejections.iter().map(|(_, count)| count).sum(),
                connections_open: origin.connections_open,
                connections_idle: origin.connections_idle,
                queued: origin.waiting,
                streams: origin.streams,
                picks: origin
                    .picks
                    .into_iter()
                    .map(|(pick, reason, count)| PicksCount {
                        pick: pick.word().to_owned(),
                        reason: reason.word().to_owned(),
                        count,
                    })
                    .collect(),
                ejections_by_cause: origin
                    .ejections
                    .iter()
                    .map(|(cause, count)| ((*cause).to_owned(), *count))
                    .collect(),
            });
            let sessions = upstream.sessions.map(|sessions| SessionsState {
                created: sessions.created,
                kept: sessions.kept,
                moved: sessions.moved,
                refused: sessions.refused,
            });
            UpstreamState {
                origins: origins.collect(),
                name: upstream.name,
                panic,
                panics,
                retries,
                retries_refused,
                hedges,
                sessions,
            }
        });
        all.collect()
    }
}

/// How clients connect to an address.
fn listening(loaded: &Loaded, address: String) -> Listening {
    let listen = loaded.config.listen.iter().find(|listen| listen.address.to_string() == address);
    let protocols = listen.map_or(&[][..], Listen::protocols).iter().map(|protocol| match protocol {
        Protocol::H2 => "h2".to_owned(),
        Protocol::Http1 => "http/1.1".to_owned(),
    });
    Listening { address, tls: listen.is_some_and(|listen| listen.tls), protocols: protocols.collect() }
}
