//! What a configuration wants of certificates.

use std::collections::HashSet;
use std::path::PathBuf;

use weir_config::model::{ClientCertificateMode, SiteCertificate};
use weir_config::value::HostPattern;
use weir_config::{Loaded, ResolvedSite};
use weir_tls::{ClientMode, Set};

use super::files::Pattern;

/// What a configuration wants of certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(super) patterns: Vec<Pattern>,
    pub(super) sites: Vec<WantedSite>,
    /// The addresses of listeners with TLS.
    pub(super) listeners: Vec<String>,
    /// Certificates are ordered: there may be none yet.
    pub(super) is_ordering: bool,
}

/// What a site wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedSite {
    pub(super) name: String,
    /// As they are written: names, `*.example.com`, `*`.
    pub(super) hosts: Vec<String>,
    pub(super) is_self_signed: bool,
    /// The file of authorities for clients' certificates.
    pub(super) clients: Option<(PathBuf, ClientMode)>,
}

impl Wanted {
    pub(crate) fn of(loaded: &Loaded) -> Wanted {
        let config = &loaded.config;
        let patterns = config.certificate.iter().map(|certificate| Pattern {
            chain: certificate.chain.0.clone(),
            key: certificate.key.as_ref().map(|key| key.0.clone()),
            is_default: certificate.default,
        });
        let of_clients = config.listen.iter().filter(|listen| listen.tls).map(|listen| &listen.address);
        let listeners = of_clients.chain(config.admin.tls.then_some(&config.admin.listen));
        Wanted {
            patterns: patterns.collect(),
            sites: loaded.resolved().iter().map(WantedSite::of).collect(),
            listeners: listeners.map(ToString::to_string).collect(),
            is_ordering: config.acme.is_some(),
        }
    }

    /// The hosts of all sites, as certificates name them.
    pub(super) fn names(&self) -> HashSet<&str> {
        let hosts = self.sites.iter().flat_map(|site| &site.hosts);
        hosts.map(|host| host.trim_matches(['[', ']'])).collect()
    }

    /// Whether a listener speaks TLS.
    pub(crate) fn has_tls(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// The hosts for which the set has no certificate.
    pub(super) fn uncovered(&self, set: &Set) -> Vec<&str> {
        let hosts = self.sites.iter().flat_map(|site| &site.hosts).map(String::as_str);
        hosts.filter(|host| *host != "*" && set.covering(host).is_none()).collect()
    }
}

impl WantedSite {
    fn of(site: &ResolvedSite) -> WantedSite {
        let clients = site.client_certificate.as_ref().map(|asked| {
            let mode = match asked.mode {
                ClientCertificateMode::Required => ClientMode::Required,
                ClientCertificateMode::Optional => ClientMode::Optional,
            };
            (asked.ca.0.clone(), mode)
        });
        WantedSite {
            name: site.name.clone(),
            hosts: site.hosts.iter().map(HostPattern::to_string).collect(),
            is_self_signed: site.certificate == Some(SiteCertificate::SelfSigned),
            clients,
        }
    }

    /// The names of its own certificate. `*` stands for this machine, and for what no other has.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for host in &self.hosts {
            match host.as_str() {
                "*" => names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned)),
                host => names.push(host.trim_matches(['[', ']']).to_owned()),
            }
        }
        names
    }

    /// Whether it answers for every host.
    pub(super) fn has_every_host(&self) -> bool {
        self.hosts.iter().any(|host| host == "*")
    }
}
