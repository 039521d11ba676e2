//! What all workers share: the store, the fills in flight, the running plan with its upstreams. A hit takes
//! no lock here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use weir_files::Files;
use weir_store::Store;
use weir_upstream::Upstream;

use crate::beside::BesideRoom;
use crate::content::laid::{Content, LaidIndex};
use crate::plan::renamed::renamed;
use crate::plan::{Plan, Route};
use crate::proofs::HttpProofs;
use crate::transform::request::Own;
use crate::warming::Walks;
use weir_fill::inflight::Inflight;
use weir_fill::resources::Resources;
use weir_fill::tenure::Tenure;
use weir_fill::waiters::Bells;
use weir_front::ClientLimits;
use weir_front::listen::{Clients, Trusted};
use weir_observe::Observatory;
use weir_share::Room;

/// Held request bodies take at most this share of the memory's ceiling. Where there is no room a body streams
/// at once.
const HOLD_SHARE: u64 = 8;
/// One client has this share of it.
const CLIENT_SHARE: u64 = 16;
/// What one client may have in any case: what a connection holds.
const HOLD_CLIENT_BYTES_MIN: u64 = 256 << 10;

/// One plan with its upstreams. A reload replaces it as a whole; requests keep the one that they began with.
pub(crate) struct Running {
    pub(crate) plan: Arc<Plan>,
    /// By name.
    pub(crate) upstreams: HashMap<String, Arc<Upstream>>,
    pub(crate) limits: Arc<ClientLimits>,
    pub(crate) trusted: Arc<Trusted>,
    /// The clients that may see how a response came about, where there are some.
    pub(crate) debug: Option<Trusted>,
    /// Whether sessions of any upstream keep their origin.
    pub(crate) has_affinity: bool,
    /// The content by hand, as requests of this plan find it.
    pub(crate) laid: LaidIndex,
    /// How long the plan is in force.
    pub(crate) tenure: Tenure,
    /// Whether the log has said that an origin sets a cookie of Weir's name.
    has_told: AtomicBool,
}

impl Running {
    /// A plan with its upstreams.
    pub(crate) fn new(plan: Plan, upstreams: HashMap<String, Arc<Upstream>>) -> Running {
        Running {
            limits: Arc::new(plan.limits()),
            trusted: Arc::new(plan.trusted()),
            debug: plan.debug(),
            has_told: AtomicBool::new(false),
            laid: LaidIndex::default(),
            tenure: Tenure::new(),
            has_affinity: upstreams.values().any(|upstream| upstream.affinity().is_some()),
            plan: Arc::new(plan),
            upstreams,
        }
    }

    /// The same, in which requests find this content.
    pub(crate) fn showing(self, content: &Content) -> Running {
        Running { laid: content.index(&self.plan), ..self }
    }

    /// Says once in the log that an origin sets a cookie of Weir's name, which clients do not get.
    pub(crate) fn tell_own_cookie(&self, upstream: &str, origin: &str) {
        if !self.has_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(upstream, origin, "an origin sets the session cookie of Weir; no client gets it");
        }
    }

    /// The upstream of a route.
    pub(crate) fn upstream(&self, route: &Route) -> Option<&Arc<Upstream>> {
        self.upstreams.get(&**route.upstream.as_ref()?)
    }
}

/// The data plane's shared parts.
pub(crate) struct Shared {
    pub(crate) store: Store,
    /// The files of all routes that have some.
    pub(crate) files: Files,
    pub(crate) inflight: Arc<Inflight>,
    pub(crate) bells: Arc<Bells>,
    /// The connections and requests of each client.
    pub(crate) clients: Arc<Clients>,
    /// What connections hold beyond what each is reckoned with.
    pub(crate) beside: Arc<BesideRoom>,
    /// Where request bodies wait until they are whole, so that a slow client occupies no connection to an
    /// origin: bytes.
    pub(crate) hold: Arc<Room>,
    pub(crate) running: ArcSwap<Running>,
    pub(crate) observatory: Arc<Observatory>,
    /// Walks without a client.
    pub(crate) walks: Walks,
    /// Answers to a certificate authority.
    pub(crate) proofs: HttpProofs,
    /// Content by hand.
    pub(crate) content: Content,
    /// Our own name in `Via` and `CDN-Loop`: `weir-` and eight hex digits that differ in every process.
    pub(crate) own: Own,
    draining: AtomicBool,
}

impl Shared {
    pub(crate) fn new(store: Store, cores: usize, running: Running, observatory: Arc<Observatory>) -> Shared {
        let bells = Arc::new(Bells::new(cores));
        let limit_bytes = store.usage().limit_bytes;
        let hold_bytes = limit_bytes / HOLD_SHARE;
        Shared {
            beside: BesideRoom::new(limit_bytes),
            hold: Room::new(hold_bytes, (hold_bytes / CLIENT_SHARE).max(HOLD_CLIENT_BYTES_MIN)),
            files: Files::new(running.plan.hot_limits()),
            store,
            inflight: Arc::new(Inflight::new(bells.clone())),
            bells,
            clients: Arc::default(),
            running: ArcSwap::from_pointee(running),
            observatory,
            walks: Walks::default(),
            proofs: HttpProofs::default(),
            content: Content::default(),
            own: Own::new(&format!("weir-{:08x}", fastrand::u32(..))),
            draining: AtomicBool::new(false),
        }
    }

    /// The same with these answers to a certificate authority, and this content by hand.
    pub(crate) fn showing(self, proofs: HttpProofs, content: Content) -> Shared {
        Shared { proofs, content, ..self }
    }

    /// Puts a plan in force for all requests that begin from now on. What lies under names that it does not
    /// give is marked first: a purge by its names would miss that, and another reload would bring it back.
    pub(crate) fn put_in_force(&self, running: Running) {
        let before = self.running.load();
        let marks = renamed(&before.plan, &running.plan);
        if !marks.is_empty() {
            tracing::info!(
                marks = marks.len(),
                "hosts of sites, or keys of URLs, have changed: what lies under the earlier ones is purged"
            );
            before.tenure.end(self.store.ledger().current());
            // Purges that are acknowledged later are on disk behind these.
            self.store.purge(&marks, weir_clock::now(), Box::new(|_| ()));
        }
        drop(before);
        self.running.store(Arc::new(running));
    }

    /// What the fills and readers of a core work with.
    pub(crate) fn resources(&self, core: usize) -> Resources {
        Resources {
            store: self.store.clone(),
            inflight: self.inflight.clone(),
            observatory: self.observatory.clone(),
            observer: self.observatory.observer(core),
            core,
        }
    }

    /// The largest declared length that is stored, in bytes. It changes as volumes come and go.
    pub(crate) fn object_bytes_max(&self) -> u64 {
        self.store.object_bytes_max()
    }

    /// Whether the process is ending: connections take no further request.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }
}
