//! The families of certificates for clients.

use super::family::{Family, Series};
use crate::data_plane::{CertificatesUse, Inventory};
use smallvec::smallvec;

/// The states of certificates, in the words of `weir certificates`.
const CERTIFICATE_STATES: [&str; 5] = ["valid", "near-end", "expired", "ordered", "failed"];

/// What is known of certificates for clients.
pub(super) fn certificates(inventory: &Inventory) -> Vec<Family<'_>> {
    let CertificatesUse { all, failures, orders } = &inventory.certificates;
    let in_use = all.iter().filter_map(|of| Some((of, of.expires_in_s?)));
    let ends = in_use.map(|(of, left)| {
        let name = of.names.first().map_or("", String::as_str);
        (smallvec![name, of.key.as_str(), of.source.as_str()], left as f64)
    });
    let unusable = all.iter().filter(|of| of.error.is_some()).count();
    let states = CERTIFICATE_STATES
        .iter()
        .filter(|_| !all.is_empty())
        .map(|state| (smallvec![*state], all.iter().filter(|of| of.state == *state).count() as f64));
    let orders = orders.map_or_else(Vec::new, |orders| {
        vec![(smallvec!["issued"], orders.issued), (smallvec!["failed"], orders.failed)]
    });
    // Without TLS there is nothing to say.
    let numbers = |number: f64| if all.is_empty() { Vec::new() } else { vec![(smallvec![], number)] };
    let failed = if all.is_empty() { Vec::new() } else { vec![(smallvec![], *failures)] };
    vec![
        Family {
            name: "weir_certificate_expires_in_seconds",
            help: "How long each certificate is still valid, by its first name, the kind of its key, and \
                   where it comes from; 0 once it has expired.",
            labels: &["certificate", "key", "source"],
            series: Series::Levels(ends.collect()),
        },
        Family {
            name: "weir_certificates",
            help: "Certificates by the state that `weir certificates` shows: valid, near-end, expired, \
                   ordered, failed.",
            labels: &["state"],
            series: Series::Levels(states.collect()),
        },
        Family {
            name: "weir_acme_orders",
            help: "Orders of certificates that have ended, by outcome.",
            labels: &["outcome"],
            series: Series::Counts(orders),
        },
        Family {
            name: "weir_certificates_unusable",
            help: "Certificates for which `weir certificates` shows an error: their files cannot be used as \
                   they are, or their last order failed.",
            labels: &[],
            series: Series::Levels(numbers(unusable as f64)),
        },
        Family {
            name: "weir_certificate_failures",
            help: "Times that files of certificates could not be used.",
            labels: &[],
            series: Series::Counts(failed),
        },
    ]
}
