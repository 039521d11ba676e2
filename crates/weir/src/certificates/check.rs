//! What `weir check` says of certificates, and what a start needs.

use std::sync::Arc;

use weir_config::Loaded;
use weir_tls::{Certificates, Ring, Set, Template};

use super::PROTOCOLS;
use super::change::Change;
use super::loader::Loader;
use super::wanted::Wanted;
use crate::acme;

/// What is amiss with the certificates of a configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Files that cannot be used, a sentence each.
    pub(crate) mistakes: Vec<String>,
    /// What may be as it should be, a sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Loads the certificates of a configuration and says what is amiss.
pub(crate) fn check(loaded: &Loaded) -> Findings {
    let now = weir_clock::now().wall;
    let wanted = Wanted::of(loaded);
    let handle = Certificates::default();
    let mut loader = Loader::new(Template::new(&Arc::new(Ring::new(now)), &PROTOCOLS), handle.clone());
    let mut findings = Findings::default();
    let found = match loader.reading(Some(wanted)).read(now).fit() {
        Ok(found) => found,
        Err(why) => return Findings { mistakes: vec![why], ..findings },
    };
    for change in loader.configure(found, now) {
        match change {
            Change::Failed { why, .. } => findings.mistakes.push(why),
            Change::Aged(identity, _) => {
                let until = weir_control::rfc3339(identity.not_after);
                findings.warnings.push(format!("{}: it ends on {until}; renew it", identity.source));
            }
            Change::Came(_) => {}
        }
    }
    findings.mistakes.extend(usable(&loader).err());
    findings.warnings.extend(warnings(loaded, &loader, &handle.current()));
    findings
}

/// What browsers will miss although every file is in order, a sentence each.
pub(super) fn warnings(loaded: &Loaded, loader: &Loader, set: &Set) -> Vec<String> {
    let mut warnings = Vec::new();
    if loader.wanted().has_tls() {
        for host in loader.wanted().uncovered(set) {
            let why = match acme::orderable(loaded, host) {
                None => format!("no certificate covers {host}"),
                Some(Ok(())) => continue,
                Some(Err(why)) => format!("{host} needs a certificate in a file, since {why}"),
            };
            warnings.push(format!("{why}: browsers cannot use it over TLS"));
        }
        let has_any = loader.wanted().sites.iter().any(super::wanted::WantedSite::has_every_host);
        if has_any && set.choose(None, true).is_none() {
            warnings.push(
                "a site answers for every host (`*`), but there is no default certificate: over TLS only \
                 names in certificates reach it"
                    .to_owned(),
            );
        }
    }
    warnings
}

/// A listener with TLS needs at least one certificate.
///
/// # Errors
/// A sentence.
pub(super) fn usable(loader: &Loader) -> Result<(), String> {
    let Some(listener) = loader.wanted().listeners.first() else { return Ok(()) };
    if loader.wanted().is_ordering || loader.held().next().is_some() {
        return Ok(());
    }
    let why: Vec<&str> = loader.broken().collect();
    let why = if why.is_empty() { "no file matches `[[certificate]]`".to_owned() } else { why.join("; ") };
    Err(format!("the listener {listener} has TLS, but there is no usable certificate: {why}"))
}
