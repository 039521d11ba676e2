//! The addresses of an origin's name: looked up off the hot path, and kept while lookups fail. It must not
//! delay a request that could use a known address.
//!
//! A request waits for a lookup only when no address is known yet. Otherwise it takes the known ones, and one
//! request starts a renewal when they are old. [`Addresses::renew`] renews them without requests as well.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use crate::clock;
use crate::error::ExchangeError;

/// The most addresses that are kept of a name.
const ADDRESSES_MAX: usize = 16;
/// For so long a failed first lookup is the answer to further ones.
const FAILURE_KEPT: Duration = Duration::from_secs(1);

type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
/// How a name is looked up.
pub type Resolver = Arc<dyn Fn(Arc<str>, u16) -> Looking + Send + Sync>;

/// The system's resolver, on tokio's blocking threads.
pub fn system() -> Resolver {
    Arc::new(|host, port| {
        Box::pin(async move { Ok(tokio::net::lookup_host((&*host, port)).await?.collect::<Vec<_>>()) })
    })
}

/// Addresses found at one moment.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) list: Vec<SocketAddr>,
    at: Instant,
    /// The index of the address that answered last: the first to be tried.
    pub(crate) preferred: AtomicUsize,
}

/// A name and its known addresses.
pub struct Addresses {
    host: Arc<str>,
    port: u16,
    /// Whether it is an IP address, which is never looked up.
    is_fixed: bool,
    /// The age at which addresses are looked up again, and the longest wait for that.
    times: Mutex<(Duration, Duration)>,
    resolver: Resolver,
    known: ArcSwapOption<Known>,
    failed: Mutex<Option<(Instant, ExchangeError)>>,
    renewing: AtomicBool,
    gate: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Addresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Addresses")
            .field("host", &self.host)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

impl Addresses {
    /// A name without addresses yet. An IP address is its own address, for good.
    pub(crate) fn new(host: &str, port: u16, times: (Duration, Duration), resolver: Resolver) -> Self {
        let fixed = host.parse::<IpAddr>().ok();
        let known = fixed.map(|ip| Arc::new(known(vec![SocketAddr::new(ip, port)], clock::now())));
        Self {
            host: host.into(),
            port,
            is_fixed: fixed.is_some(),
            times: Mutex::new(times),
            resolver,
            known: ArcSwapOption::new(known),
            failed: Mutex::new(None),
            renewing: AtomicBool::new(false),
            gate: tokio::sync::Mutex::new(()),
        }
    }

    /// Changes the age at which addresses are looked up again, and the longest wait for that.
    pub fn retime(&self, every: Duration, patience: Duration) {
        *self.times.lock() = (every, patience);
    }

    /// The number of addresses known.
    pub fn count(&self) -> usize {
        self.known.load().as_ref().map_or(0, |known| known.list.len())
    }

    /// Those that are known, without ports.
    pub fn ips(&self) -> Vec<IpAddr> {
        let known = self.known.load();
        known.iter().flat_map(|known| &known.list).map(|address| address.ip()).collect()
    }

    /// The address, where exactly one is known.
    pub(crate) fn only(&self) -> Option<SocketAddr> {
        match self.known.load().as_deref()?.list.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// The one to be tried first, where one is known.
    pub fn first_known(&self) -> Option<SocketAddr> {
        let known = self.known.load();
        let known = known.as_deref()?;
        known.list.get(known.preferred.load(Ordering::Relaxed)).or(known.list.first()).copied()
    }

    /// Whether this is one of its addresses.
    pub fn has(&self, address: SocketAddr) -> bool {
        self.known.load().as_ref().is_some_and(|known| known.list.contains(&address))
    }

    /// The addresses, looked up only if none is known.
    ///
    /// # Errors
    /// Those of the lookup.
    pub(crate) async fn current(self: &Arc<Self>) -> Result<Arc<Known>, ExchangeError> {
        let Some(known) = self.known.load_full() else {
            return self.first().await;
        };
        if self.is_old(&known, clock::now()) && !self.renewing.swap(true, Ordering::AcqRel) {
            let renewal = Renewal(self.clone());
            tokio::spawn(async move {
                // A failure keeps the old addresses and is reported by `look_up`.
                let _ = renewal.0.look_up().await;
            });
        }
        Ok(known)
    }

    /// Looks the name up again if its addresses are old or unknown. The old ones stay where that fails.
    ///
    /// # Errors
    /// Those of the lookup.
    pub async fn renew(self: &Arc<Self>) -> Result<(), ExchangeError> {
        let due = match self.known.load_full() {
            None => true,
            Some(known) => self.is_old(&known, clock::now()),
        };
        if due && !self.renewing.swap(true, Ordering::AcqRel) {
            let renewal = Renewal(self.clone());
            renewal.0.look_up().await?;
        }
        Ok(())
    }

    fn is_old(&self, known: &Known, now: Instant) -> bool {
        !self.is_fixed && now.saturating_duration_since(known.at) >= self.times.lock().0
    }

    /// One lookup for all requests that wait for it.
    async fn first(self: &Arc<Self>) -> Result<Arc<Known>, ExchangeError> {
        let _turn = self.gate.lock().await;
        if let Some(known) = self.known.load_full() {
            return Ok(known);
        }
        let recent = self.failed.lock().clone();
        if let Some((at, error)) = recent
            && clock::now().saturating_duration_since(at) < FAILURE_KEPT
        {
            return Err(error);
        }
        self.look_up().await
    }

    async fn look_up(&self) -> Result<Arc<Known>, ExchangeError> {
        let host = self.host.clone();
        let looking = (self.resolver)(host.clone(), self.port);
        let patience = self.times.lock().1;
        let error = match tokio::time::timeout(patience, looking).await {
            Ok(Ok(list)) if !list.is_empty() => return Ok(self.learn(list)),
            Ok(Ok(_)) => {
                let source = Arc::new(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
                ExchangeError::Lookup { host, source }
            }
            Ok(Err(source)) => ExchangeError::Lookup { host, source: Arc::new(source) },
            Err(_) => ExchangeError::LookupTimeout { host },
        };
        tracing::warn!(host = %self.host, kept = self.count(), %error, "cannot look up the origin's name");
        *self.failed.lock() = Some((clock::now(), error.clone()));
        Err(error)
    }

    fn learn(&self, mut list: Vec<SocketAddr>) -> Arc<Known> {
        list.truncate(ADDRESSES_MAX);
        let fresh = known(list, clock::now());
        if let Some(old) = self.known.load_full() {
            let preferred = old.list.get(old.preferred.load(Ordering::Relaxed));
            if let Some(index) = fresh.list.iter().position(|address| Some(address) == preferred) {
                let followed = old.list.iter().all(|address| fresh.list.contains(address));
                fresh.preferred.store(if followed { index } else { 0 }, Ordering::Relaxed);
            }
        }
        let fresh = Arc::new(fresh);
        self.known.store(Some(fresh.clone()));
        fresh
    }
}

fn known(list: Vec<SocketAddr>, at: Instant) -> Known {
    Known { list, at, preferred: AtomicUsize::new(0) }
}

/// The one renewal under way; lets the next begin when dropped.
struct Renewal(Arc<Addresses>);

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.renewing.store(false, Ordering::Release);
    }
}
