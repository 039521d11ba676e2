//! Joins `weir-acme`, which orders certificates, with the configuration, the set of certificates, the answers
//! over HTTP, the log and the control plane. It orders while this process owns the state folder.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use weir_acme::plan::Why;
use weir_acme::{
    Acme, AuthoritySettings, Challenge, Clock, ExternalAccount, Failed, Issued, Name, Outside, Proof, Row,
    Seconds, Settings, Step, Unorderable,
};
use weir_config::Loaded;
use weir_config::model::{self, AcmeChallenge};
use weir_config::value::{FilePath, HostPattern};
use weir_control::state::ACME;
use weir_control::{CertificateUse, CertificatesUse, OrdersEnded, rfc3339};
use weir_edge::HttpProofs;
use weir_observe::{Event, EventKind, Observatory};
use weir_store::OsDisk;

use crate::certificates::Keeper;

/// What orders certificates in this process.
pub(crate) struct Ordering {
    folder: PathBuf,
    outside: Arc<Joined>,
    running: Mutex<Running>,
}

/// What is wanted, and the thread while there is one.
struct Running {
    settings: Option<Settings>,
    acme: Option<Acme>,
}

/// Where proofs and certificates go in this process.
struct Joined {
    certificates: Keeper,
    proofs: HttpProofs,
    observatory: Arc<Observatory>,
    /// Orders that have ended.
    ended: Mutex<OrdersEnded>,
}

impl Ordering {
    /// Puts in use what is kept: the certificates that were ordered before, and the answers of orders under
    /// way, which a certificate authority may ask for at any moment. It needs no authority and asks none, and
    /// comes before clients do; [`Ordering::resume`] comes after.
    ///
    /// # Errors
    /// A file that the configuration names cannot be read.
    pub(crate) fn prepare(
        loaded: &Loaded,
        state: &Path,
        certificates: &Keeper,
        proofs: &HttpProofs,
        observatory: &Arc<Observatory>,
    ) -> anyhow::Result<Ordering> {
        let settings = settings(loaded, certificates).map_err(anyhow::Error::msg)?;
        let outside = Arc::new(Joined {
            certificates: certificates.clone(),
            proofs: proofs.clone(),
            observatory: observatory.clone(),
            ended: Mutex::default(),
        });
        let ordering = Ordering {
            folder: state.join(ACME),
            outside,
            running: Mutex::new(Running { settings, acme: None }),
        };
        if let Some(settings) = &ordering.running.lock().settings {
            ordering.serve_kept(settings);
        }
        Ok(ordering)
    }

    fn serve_kept(&self, settings: &Settings) {
        let kept = weir_acme::kept(Arc::new(OsDisk::at(&self.folder)), settings, &Clock::wall());
        put(&self.outside.certificates, &kept.certificates);
        kept.proofs.iter().for_each(|proof| self.outside.show(proof));
    }

    /// Puts another configuration in force, after its certificates in files; returns what is amiss.
    pub(crate) fn configure(&self, loaded: &Loaded) -> Option<String> {
        let settings = match settings(loaded, &self.outside.certificates) {
            Ok(settings) => settings,
            Err(error) => return Some(format!("[acme] stays as it was: {error}")),
        };
        let mut running = self.running.lock();
        running.settings = settings;
        match (&running.acme, &running.settings) {
            (Some(acme), Some(settings)) => acme.configure(settings.clone()),
            (Some(acme), None) => {
                acme.stop();
                running.acme = None;
            }
            (None, Some(settings)) => {
                self.serve_kept(settings);
                drop(running);
                return self.resume().err().map(|error| format!("[acme] does not work: {error}"));
            }
            (None, None) => {}
        }
        None
    }

    /// Puts the orders under way down: another process takes them up.
    pub(crate) fn stop(&self) {
        if let Some(acme) = self.running.lock().acme.take() {
            acme.stop();
        }
    }

    /// Orders, if it does not yet.
    ///
    /// # Errors
    /// The roots of an authority cannot be used, or no thread can be started.
    pub(crate) fn resume(&self) -> std::io::Result<()> {
        let mut running = self.running.lock();
        let Running { settings: Some(settings), acme: acme @ None } = &mut *running else { return Ok(()) };
        let disk = Arc::new(OsDisk::at(&self.folder));
        *acme = Some(Acme::start(disk, settings.clone(), Clock::wall(), self.outside.clone())?);
        Ok(())
    }

    /// Adds what is known of orders to the certificates in use.
    pub(crate) fn add_to(&self, shown: &mut CertificatesUse) {
        let running = self.running.lock();
        shown.orders = running.settings.as_ref().map(|_| *self.outside.ended.lock());
        let rows = running.acme.as_ref().map(Acme::rows).unwrap_or_default();
        drop(running);
        let all = &mut shown.all;
        let mut known: HashMap<String, usize> = HashMap::new();
        for (at, shown) in all.iter().enumerate().filter(|(_, shown)| shown.source == "acme") {
            known.extend(shown.names.first().map(|name| (name.clone(), at)));
        }
        for row in rows {
            let name = Name::of(&row.host).map_or_else(|_| row.host.clone(), |name| name.to_string());
            let (next, error) = (Some(next(&row)), row.last_error.as_ref().map(|error| error.what.clone()));
            match known.get(&name) {
                Some(at) => (all[*at].next, all[*at].error) = (next, error),
                None => all.push(CertificateUse {
                    names: vec![name],
                    source: "acme".to_owned(),
                    state: if matches!(row.step, Step::NeedsFile(_)) || error.is_some() {
                        "failed"
                    } else {
                        "ordered"
                    }
                    .to_owned(),
                    next,
                    error,
                    ..CertificateUse::default()
                }),
            }
        }
    }
}

fn put(certificates: &Keeper, issued: &[Issued]) {
    let pairs = issued.iter().map(|issued| (&*issued.chain_pem, &*issued.key_pem));
    for failure in certificates.issue(pairs) {
        tracing::error!("a certificate of an authority cannot be used: {failure}");
    }
}

impl Outside for Joined {
    fn show(&self, proof: &Proof) {
        match proof {
            Proof::Http { host, proof } => self.proofs.show(host, &proof.token, &proof.authorization),
            Proof::TlsAlpn { server_name, certificate, key } => {
                if let Err(error) = self.certificates.challenge(server_name, certificate.clone(), key) {
                    tracing::error!(
                        server_name,
                        error,
                        "cannot answer a certificate authority by TLS-ALPN-01"
                    );
                }
            }
        }
    }

    fn withdraw(&self, proof: &Proof) {
        match proof {
            Proof::Http { proof, .. } => self.proofs.withdraw(&proof.token),
            Proof::TlsAlpn { server_name, .. } => self.certificates.withdraw(server_name),
        }
    }

    fn issued(&self, issued: Issued) {
        self.ended.lock().issued += 1;
        put(&self.certificates, &[issued]);
    }

    fn failed(&self, failed: Failed) {
        self.ended.lock().failed += 1;
        self.observatory.events.tell(EventKind::Certificate, || Event {
            kind: EventKind::Certificate,
            wall: weir_clock::now().wall,
            site: 0,
            key: failed.host.into_bytes(),
            bytes: None,
            why: "order-failed",
            volume: None,
            purge: None,
        });
    }
}

/// Whether `[acme]` can have a certificate for a host; `None` without `[acme]`.
pub(crate) fn orderable(loaded: &Loaded, host: &str) -> Option<Result<(), Unorderable>> {
    let acme = loaded.config.acme.as_ref()?;
    let directories = std::iter::once(&acme.directory).chain(acme.fallback.iter().map(|ca| &ca.directory));
    let mut last = Ok(());
    for directory in directories {
        last = Name::orderable(host, directory.as_str()).map(drop);
        if last.is_ok() {
            break;
        }
    }
    Some(last)
}

/// What the configuration asks for; `None` without `[acme]`.
fn settings(loaded: &Loaded, certificates: &Keeper) -> Result<Option<Settings>, String> {
    let Some(acme) = &loaded.config.acme else { return Ok(None) };
    let first = AuthoritySettings {
        directory: acme.directory.to_string(),
        contact: contacts(&acme.contact),
        roots: acme.ca_file.as_ref().map(roots).transpose()?,
        profile: acme.profile.clone(),
        external: acme.eab.as_ref().map(external),
    };
    let mut authorities = vec![first];
    if let Some(second) = &acme.fallback {
        authorities.push(AuthoritySettings {
            directory: second.directory.to_string(),
            contact: contacts(second.contact.as_ref().unwrap_or(&acme.contact)),
            roots: second.ca_file.as_ref().map(roots).transpose()?,
            profile: second.profile.clone(),
            external: second.eab.as_ref().map(external),
        });
    }
    let sites = loaded.resolved().iter().filter(|site| site.certificate.is_none());
    let hosts = sites.flat_map(|site| &site.hosts).filter(|host| **host != HostPattern::Default);
    let hosts = hosts.map(HostPattern::to_string).filter(|host| !certificates.has_own(host));
    let challenges = challenges(loaded, acme.challenge);
    Ok(Some(Settings { authorities, hosts: hosts.collect(), challenges }))
}

/// The ways of proving for which there is a listener, the preferred one first.
fn challenges(loaded: &Loaded, wanted: Option<AcmeChallenge>) -> Vec<Challenge> {
    let listeners = &loaded.config.listen;
    match wanted {
        Some(AcmeChallenge::Http01) => vec![Challenge::Http01],
        Some(AcmeChallenge::TlsAlpn01) => vec![Challenge::TlsAlpn01],
        None if listeners.iter().all(|listen| listen.tls) => vec![Challenge::TlsAlpn01],
        None => vec![Challenge::Http01, Challenge::TlsAlpn01],
    }
}

fn contacts(contacts: &[String]) -> Vec<String> {
    let url = |contact: &String| match contact.contains(':') {
        true => contact.clone(),
        false => format!("mailto:{contact}"),
    };
    contacts.iter().map(url).collect()
}

fn roots(file: &FilePath) -> Result<String, String> {
    /// More than all roots that browsers know.
    const BYTES_MAX: u64 = 16 << 20;
    weir_config::read_text_file(&file.0, BYTES_MAX).map_err(|error| format!("cannot read {file}: {error}"))
}

fn external(external: &model::ExternalAccount) -> ExternalAccount {
    ExternalAccount { key_id: external.key_id.clone(), hmac_key: external.hmac_key.clone() }
}

fn next(row: &Row) -> String {
    match row.step {
        Step::Orders => "an order is under way".to_owned(),
        Step::Renews(at) => format!("is renewed from {} on", date(at)),
        Step::Waits(at, why) => {
            let why = match why {
                Why::Backoff => "after failures",
                Why::Budget => "since the day's orders are used up",
                Why::Authority => "when the authority is asked again",
                Why::Renewal | Why::Question => "as planned",
            };
            format!("is ordered at {}, {why}", date(at))
        }
        Step::NeedsFile(why) => format!("needs a file: {why}"),
    }
}

fn date(at: Seconds) -> String {
    rfc3339(UNIX_EPOCH.checked_add(Duration::from_secs(at)).unwrap_or(SystemTime::UNIX_EPOCH))
}
