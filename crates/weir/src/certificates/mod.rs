//! The certificates of this process: loaded from files or signed here, watched, and told of. It joins
//! `weir-tls`, which chooses among them, with the configuration, the log and the control plane.

mod change;
mod check;
mod files;
mod loader;
mod reading;
mod wanted;

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use weir_config::Loaded;
use weir_control::{CertificateUse, CertificatesUse, rfc3339};
use weir_observe::{Event, EventKind, Observatory};
use weir_tls::{Certificates, Identity, KeyKind, Pem, Ring, Source, Template};

use self::change::{Change, Stage};
use self::loader::Loader;
use self::reading::Found;
use self::wanted::Wanted;

pub(crate) use self::check::check;
#[cfg(feature = "script")]
pub(crate) use self::files::Stamp;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// What clients may speak, the preferred first. A listener may allow less.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The certificates of this process. A clone is the same.
#[derive(Clone)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    /// Its thread ends with the last of these.
    _alive: Sender<()>,
}

struct Shared {
    /// Held while no file is read: who looks at certificates does not wait for a drive.
    loader: Mutex<Loader>,
    template: Template,
    handle: Certificates,
    ring: Arc<Ring>,
    observatory: Arc<Observatory>,
}

impl Keeper {
    /// Loads the certificates of a configuration, and looks at their files from now on. `tickets` are the
    /// keys of the process before, or empty.
    ///
    /// # Errors
    /// A listener has TLS, and there is no usable certificate; or a site's clients cannot be verified.
    pub(crate) fn start(
        loaded: &Loaded,
        observatory: &Arc<Observatory>,
        tickets: &[u8],
    ) -> anyhow::Result<Keeper> {
        let now = weir_clock::now().wall;
        let ring = Arc::new(Ring::new(now));
        if !tickets.is_empty()
            && let Err(error) = ring.import(tickets)
        {
            tracing::warn!(%error, "sessions of clients are not resumed after this upgrade");
        }
        let handle = Certificates::default();
        let template = Template::new(&ring, &PROTOCOLS);
        let mut loader = Loader::new(template.clone(), handle.clone());
        let found = loader.reading(Some(Wanted::of(loaded))).read(now).fit().map_err(anyhow::Error::msg)?;
        let changes = loader.configure(found, now);
        check::usable(&loader).map_err(anyhow::Error::msg)?;
        for warning in check::warnings(loaded, &loader, &handle.current()) {
            tracing::warn!("{warning}");
        }
        let loader = Mutex::new(loader);
        let shared = Arc::new(Shared { loader, template, handle, ring, observatory: observatory.clone() });
        shared.tell(&changes);
        let (_alive, ends) = mpsc::channel();
        let watched = Arc::clone(&shared);
        let watch = move || {
            while ends.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                watched.look();
            }
        };
        let thread = thread::Builder::new().name("weir-tls".to_owned()).spawn(watch);
        thread.context("cannot start the thread that looks at certificates")?;
        Ok(Keeper { shared, _alive })
    }

    /// What listeners choose from.
    pub(crate) fn handle(&self) -> Certificates {
        self.shared.handle.clone()
    }

    /// The keys of tickets, for the process that takes over. They are secret.
    pub(crate) fn export_tickets(&self) -> Vec<u8> {
        self.shared.ring.export()
    }

    /// Reads what a configuration needs. Nothing changes by it. Blocks, as long as a drive does not answer.
    ///
    /// # Errors
    /// What must not fail has: a sentence.
    pub(crate) fn prepare(&self, loaded: &Loaded) -> Result<Found, String> {
        let reading = self.shared.loader.lock().reading(Some(Wanted::of(loaded)));
        reading.read(weir_clock::now().wall).fit()
    }

    /// Puts the certificates of a configuration in force, and returns warnings.
    pub(crate) fn configure(&self, loaded: &Loaded, found: Found) -> Vec<String> {
        let mut loader = self.shared.loader.lock();
        let changes = loader.configure(found, weir_clock::now().wall);
        let mut warnings: Vec<String> = loader.broken().map(str::to_owned).collect();
        warnings.extend(check::usable(&loader).err());
        warnings.extend(check::warnings(loaded, &loader, &self.shared.handle.current()));
        drop(loader);
        self.shared.tell(&changes);
        warnings
    }

    /// Puts certificates of an authority in use, each a chain and a key in PEM. Returns why those cannot be
    /// used that cannot.
    pub(crate) fn issue<'a>(&self, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
        let pairs = pairs.map(|(chain, key)| Pem { chain: chain.as_bytes(), key: key.as_bytes() });
        let (changes, failures) = self.shared.loader.lock().issue(pairs, weir_clock::now().wall);
        self.shared.tell(&changes);
        failures
    }

    /// The certificate that a client gets that asks for a host, and whether it names that host.
    pub(crate) fn for_host(&self, host: &str) -> Option<(CertificateUse, bool)> {
        let set = self.shared.handle.current();
        let identity = set.choose(Some(host), true)?;
        Some((told(identity, weir_clock::now().wall), identity.names.cover(host)))
    }

    /// Whether a host has a certificate that does not come from an authority by an order.
    pub(crate) fn has_own(&self, host: &str) -> bool {
        let set = self.shared.handle.current();
        set.covering(host).is_some_and(|identity| identity.source != Source::Acme)
    }

    /// Answers the challenges of an authority for `name` with a certificate and its key in DER.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn challenge(&self, name: &str, chain: Vec<u8>, key: &[u8]) -> Result<(), String> {
        let now = weir_clock::now().wall;
        let identity = self.shared.template.identity_from_der((vec![chain], key), Source::Challenge, now);
        self.shared.handle.challenge(name, &Arc::new(identity.map_err(|error| error.to_string())?));
        Ok(())
    }

    /// Answers no challenge for `name` any more.
    pub(crate) fn withdraw(&self, name: &str) {
        self.shared.handle.withdraw(name);
    }

    /// All certificates, those included that cannot be used.
    pub(crate) fn in_use(&self) -> CertificatesUse {
        let now = weir_clock::now().wall;
        let loader = self.shared.loader.lock();
        let mut all: Vec<CertificateUse> = Vec::new();
        for (files, pair) in loader.pairs() {
            let source = files.chain.display().to_string();
            let shown = match &pair.held {
                Some(held) => told(&held.identity, now),
                None => CertificateUse { state: "failed".to_owned(), source, ..CertificateUse::default() },
            };
            all.push(CertificateUse { error: pair.failure.clone(), ..shown });
        }
        all.extend(loader.others().map(|held| told(&held.identity, now)));
        CertificatesUse { all, failures: loader.failures, orders: None }
    }
}

impl Shared {
    fn look(&self) {
        let now = weir_clock::now().wall;
        if self.ring.turn(now) {
            tracing::debug!("a new key for session tickets");
        }
        let reading = self.loader.lock().reading(None);
        let found = reading.read(now);
        let changes = self.loader.lock().look(found, now);
        self.tell(&changes);
    }

    /// Tells the log and the readers of events.
    fn tell(&self, changes: &[Change]) {
        for change in changes {
            change.log();
            self.observatory.events.tell(EventKind::Certificate, || {
                let (subject, why) = change.told();
                let key = subject.into_bytes();
                let wall = weir_clock::now().wall;
                Event {
                    kind: EventKind::Certificate,
                    wall,
                    site: 0,
                    key,
                    bytes: None,
                    why,
                    volume: None,
                    purge: None,
                }
            });
        }
    }
}

/// What is shown of a certificate in use.
fn told(identity: &Identity, now: std::time::SystemTime) -> CertificateUse {
    let stage = Stage::of(identity, now);
    let left = identity.not_after.duration_since(now).map_or(0, |left| left.as_secs());
    let addresses = identity.names.addresses().iter().map(ToString::to_string);
    let next = match (&identity.source, stage) {
        (Source::Files { .. }, Stage::Valid) => "new files are taken up by themselves",
        (Source::Files { .. }, _) => "renew the files; they are taken up by themselves",
        (Source::SelfSigned, _) => "signed again at each start; for development only",
        _ => "",
    };
    CertificateUse {
        names: identity.names.dns().map(str::to_owned).chain(addresses).collect(),
        source: identity.source.to_string(),
        key: match identity.key_kind {
            KeyKind::Ecdsa => "ecdsa",
            KeyKind::Rsa => "rsa",
            KeyKind::Ed25519 => "ed25519",
        }
        .to_owned(),
        state: stage.word().to_owned(),
        expires: Some(rfc3339(identity.not_after)),
        expires_in_s: Some(left),
        default: identity.is_default,
        next: (!next.is_empty()).then(|| next.to_owned()),
        error: None,
    }
}
