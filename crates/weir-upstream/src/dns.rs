//! Asks DNS for every address of a name: A and AAAA, or for a service name (`_http._tcp.example`) SRV with
//! the addresses of its targets (RFC 2782). It must not decide what becomes of an answer.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::{Resolver, TokioResolver};

use crate::address;
use crate::adjust::Found;
use crate::settings::Role;

/// The most addresses of one name.
pub(crate) const FOUND_MAX: usize = 1000;
/// The most targets of a service name that are looked up.
const TARGETS_MAX: usize = 1000;
/// How often a name server is asked before the lookup fails.
const ATTEMPTS: usize = 2;

/// What DNS says of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Each address once, in order.
    pub(crate) found: Vec<Found>,
    /// How many more there were.
    pub(crate) left_out: usize,
    /// How long that is good.
    pub(crate) ttl: Option<Duration>,
    /// Whether the addresses of each family are known: IPv4, IPv6. Those of the other may still be there.
    pub(crate) is_known: (bool, bool),
}

/// Whether it is the name of a service (RFC 2782), whose addresses are in SRV records.
pub(crate) fn is_service(host: &str) -> bool {
    let mut labels = host.split('.');
    let is_marked =
        |label: Option<&str>| label.is_some_and(|label| label.len() > 1 && label.starts_with('_'));
    is_marked(labels.next()) && is_marked(labels.next())
}

/// The name that a service belongs to, for TLS (RFC 6125 §6.2.1).
pub(crate) fn domain_of(host: &str) -> &str {
    if !is_service(host) {
        return host;
    }
    host.splitn(3, '.').nth(2).unwrap_or(host)
}

/// A resolver for names of which no address is known yet.
pub(crate) fn by_servers(nameservers: &[SocketAddr], patience: Duration) -> address::Resolver {
    let nameservers: Arc<[SocketAddr]> = nameservers.into();
    Arc::new(move |host, port| {
        let nameservers = nameservers.clone();
        Box::pin(async move {
            let answer = look_up(&host, port, &nameservers, patience).await.map_err(io::Error::other)?;
            Ok(answer.found.into_iter().map(|found| found.at).collect())
        })
    })
}

/// Looks a name up.
///
/// # Errors
/// A sentence: what is known of the name stays.
pub(crate) async fn look_up(
    host: &str,
    port: u16,
    nameservers: &[SocketAddr],
    patience: Duration,
) -> Result<Answer, String> {
    let resolver = match resolver(nameservers, patience) {
        Ok(resolver) => resolver,
        Err(error) if nameservers.is_empty() => {
            tracing::debug!(%error, "no resolv.conf; the system's resolver is asked, which tells no TTL");
            return by_system(host, port).await.map_err(|error| error.to_string());
        }
        Err(error) => return Err(error.to_string()),
    };
    if is_service(host) { service(&resolver, host).await } else { addresses(&resolver, host, port).await }
}

fn resolver(nameservers: &[SocketAddr], patience: Duration) -> Result<TokioResolver, NetError> {
    let mut builder = if nameservers.is_empty() {
        TokioResolver::builder_tokio()?
    } else {
        let server = |address: &SocketAddr| {
            let on_port = |mut connection: ConnectionConfig| {
                connection.port = address.port();
                connection
            };
            let connections = vec![on_port(ConnectionConfig::udp()), on_port(ConnectionConfig::tcp())];
            NameServerConfig::new(address.ip(), true, connections)
        };
        let config = ResolverConfig::from_parts(None, Vec::new(), nameservers.iter().map(server).collect());
        Resolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    let options = builder.options_mut();
    options.timeout = patience;
    options.attempts = ATTEMPTS;
    // Its own cache would hide when an answer ends.
    options.cache_size = 0;
    builder.build()
}

/// The system's resolver.
async fn by_system(host: &str, port: u16) -> io::Result<Answer> {
    let all = tokio::net::lookup_host((host, port)).await?;
    let found: Vec<Found> = all.map(|at| Found::of(at, None, None)).collect();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(bounded(found, None, (true, true)))
}

async fn addresses(resolver: &TokioResolver, host: &str, port: u16) -> Result<Answer, String> {
    let (four, six) = tokio::join!(resolver.ipv4_lookup(host), resolver.ipv6_lookup(host));
    let is_known = (is_answer(&four), is_answer(&six));
    if let ((false, _), Err(error)) | ((_, false), Err(error)) =
        (is_known, if is_known.0 { &six } else { &four })
        && four.is_err()
        && six.is_err()
    {
        return Err(error.to_string());
    }
    let mut ttl = None;
    let mut found = Vec::new();
    for lookup in [four, six].into_iter().flatten() {
        for record in lookup.answers() {
            let ip = match &record.data {
                RData::A(ip) => Some(IpAddr::V4(ip.0)),
                RData::AAAA(ip) => Some(IpAddr::V6(ip.0)),
                // The alias may end before the address does.
                RData::CNAME(_) => None,
                _ => continue,
            };
            ttl = least(ttl, record.ttl);
            let Some(ip) = ip else { continue };
            found.push(Found::of(SocketAddr::new(ip, port), None, None));
        }
    }
    if found.is_empty() {
        return Err("the name has no address".to_owned());
    }
    Ok(bounded(found, ttl, is_known))
}

/// Whether the name server has answered, be it that there is none.
fn is_answer<T>(result: &Result<T, NetError>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) => error.is_no_records_found(),
    }
}

async fn service(resolver: &TokioResolver, host: &str) -> Result<Answer, String> {
    let lookup = resolver.srv_lookup(host).await.map_err(|error| error.to_string())?;
    let mut ttl = None;
    let mut records = Vec::new();
    for record in lookup.answers() {
        if let RData::SRV(service) = &record.data {
            ttl = least(ttl, record.ttl);
            records.push((service.priority, service.weight, service.target.to_ascii(), service.port));
        }
    }
    // The target `.` says that there is no such service.
    records.retain(|(_, _, target, port)| target != "." && *port != 0);
    records.sort();
    records.truncate(TARGETS_MAX);
    let Some(first) = records.first().map(|record| record.0) else {
        return Err("the service has no target".to_owned());
    };
    let mut targets: BTreeMap<String, Result<Answer, String>> = BTreeMap::new();
    let (mut found, mut is_known) = (Vec::new(), (true, true));
    for (priority, weight, target, port) in records {
        if !targets.contains_key(&target) {
            targets.insert(target.clone(), addresses(resolver, &target, 1).await);
        }
        let role = if priority == first { Role::Primary } else { Role::Backup };
        match &targets[&target] {
            Ok(answer) => {
                ttl = ttl.min(answer.ttl).or(ttl);
                is_known = (is_known.0 && answer.is_known.0, is_known.1 && answer.is_known.1);
                let weight = u32::from(weight).clamp(1, 1000);
                let at = answer.found.iter().map(|found| SocketAddr::new(found.at.ip(), port));
                found.extend(at.map(|at| Found::of(at, Some(weight), Some(role))));
            }
            Err(_) => is_known = (false, false),
        }
    }
    if found.is_empty() {
        return Err("no target of the service has an address".to_owned());
    }
    Ok(bounded(found, ttl, is_known))
}

fn least(ttl: Option<Duration>, seconds: u32) -> Option<Duration> {
    let of_record = Duration::from_secs(u64::from(seconds));
    Some(ttl.map_or(of_record, |ttl| ttl.min(of_record)))
}

/// Each address once, in an order that does not depend on the answer's, and not too many.
fn bounded(mut found: Vec<Found>, ttl: Option<Duration>, is_known: (bool, bool)) -> Answer {
    // Primaries come before backups.
    found.sort_by_key(|found| (found.at, found.role == Some(Role::Backup)));
    found.dedup_by_key(|found| found.at);
    let left_out = found.len().saturating_sub(FOUND_MAX);
    found.truncate(FOUND_MAX);
    Answer { found, left_out, ttl, is_known }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_known_by_their_names() {
        assert!(
            is_service("_http._tcp.app.test") && !is_service("_http.app.test") && !is_service("app.test")
        );
        assert_eq!((domain_of("_http._tcp.app.test"), domain_of("app.test")), ("app.test", "app.test"));
    }

    #[test]
    fn each_address_counts_once_and_at_most_a_thousand_do() {
        let at = |number: u16| SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 80));
        let all = (0..1500).chain(0..10).map(|number| Found::of(at(number), None, None)).collect();
        let answer = bounded(all, None, (true, true));
        assert_eq!((answer.found.len(), answer.left_out), (1000, 500));
    }
}
