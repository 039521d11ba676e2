//! Asks DNS for every address of a name: A and AAAA, or for a service name (`_http._tcp.example`) SRV with
//! the addresses of its targets (RFC 2782). It must not decide what becomes of an answer.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::{Resolver, TokioResolver};
use weir_client::{is_service, system_resolver};

use super::{Answer, FOUND_MAX};
use crate::choice::adjust::Found;
use crate::settings::Role;

/// The most targets of a service name that are looked up.
const TARGETS_MAX: usize = 1000;
/// The largest weight of an origin.
const WEIGHT_MAX: u32 = 1000;
/// The most addresses that are remembered of those that no origin can have.
const UNFIT_MAX: usize = 1000;
/// How often a name server is asked before the lookup fails.
const ATTEMPTS: usize = 2;

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
    // Its ceiling would make a TTL without meaning a long one.
    options.positive_max_ttl = Some(Duration::from_secs(u64::from(u32::MAX)));
    builder.build()
}

/// The system's resolver.
async fn by_system(host: &str, port: u16) -> io::Result<Answer> {
    let all = system_resolver()(host.into(), port).await?;
    let found: Vec<Found> = all.into_iter().map(|at| Found::of(at, None, None)).collect();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, NO_ADDRESS));
    }
    bounded(found, None, (true, true)).map_err(|why| io::Error::new(io::ErrorKind::NotFound, why))
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
        return Err(NO_ADDRESS.to_owned());
    }
    bounded(found, ttl, is_known)
}

/// Why a name without addresses is no origin.
const NO_ADDRESS: &str = "the name has no address";

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
    let role_of = |priority| if priority == first { Role::Primary } else { Role::Backup };
    let of_role = |role| {
        let of = records.iter().filter(move |record| role_of(record.0) == role);
        Scale::of(of.map(|record| record.1))
    };
    let (primaries, backups) = (of_role(Role::Primary), of_role(Role::Backup));
    let mut targets: BTreeMap<&str, Result<Answer, String>> = BTreeMap::new();
    let (mut found, mut unfit, mut is_known) = (Vec::new(), Vec::new(), (true, true));
    for (priority, weight, target, port) in &records {
        if !targets.contains_key(target.as_str()) {
            targets.insert(target, addresses(resolver, target, 1).await);
        }
        let role = role_of(*priority);
        let scale = if role == Role::Primary { primaries } else { backups };
        match &targets[target.as_str()] {
            Ok(answer) => {
                ttl = ttl.min(answer.ttl).or(ttl);
                is_known = (is_known.0 && answer.is_known.0, is_known.1 && answer.is_known.1);
                unfit.extend_from_slice(&answer.unfit);
                let at = answer.found.iter().map(|found| SocketAddr::new(found.at.ip(), *port));
                found.extend(at.map(|at| Found::of(at, Some(scale.weight(*weight)), Some(role))));
            }
            Err(_) => is_known = (false, false),
        }
    }
    if found.is_empty() {
        return Err("no target of the service has an address".to_owned());
    }
    let answer = bounded(found, ttl, is_known)?;
    unfit.truncate(UNFIT_MAX);
    Ok(Answer { unfit, ..answer })
}

/// How the weights of SRV records become those of origins, so that their ratios stay: `(times, by)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale(u32, u32);

impl Scale {
    /// The scale of records that share requests.
    fn of(weights: impl Iterator<Item = u16>) -> Scale {
        let (mut most, mut has_zero) = (0, false);
        for weight in weights {
            most = most.max(u32::from(weight));
            has_zero |= weight == 0;
        }
        match most {
            0 => Scale(1, 1),
            most if most > WEIGHT_MAX => Scale(WEIGHT_MAX, most),
            // Beside others a weight of 0 is to get next to nothing (RFC 2782), and 1 is the least.
            most if has_zero => Scale(WEIGHT_MAX / most, 1),
            _ => Scale(1, 1),
        }
    }

    fn weight(self, weight: u16) -> u32 {
        let Scale(times, by) = self;
        ((u32::from(weight) * times + by / 2) / by).clamp(1, WEIGHT_MAX)
    }
}

/// The shorter of two TTLs. One with the highest bit set counts as 0 (RFC 2181 §8).
fn least(ttl: Option<Duration>, seconds: u32) -> Option<Duration> {
    let seconds = if seconds > i32::MAX.unsigned_abs() { 0 } else { seconds };
    let of_record = Duration::from_secs(u64::from(seconds));
    Some(ttl.map_or(of_record, |ttl| ttl.min(of_record)))
}

/// Whether it names no single machine: `0.0.0.0`, `::`, multicast, broadcast.
fn is_unfit(ip: IpAddr) -> bool {
    let is_broadcast = |ip: IpAddr| matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    let ip = ip.to_canonical();
    ip.is_unspecified() || ip.is_multicast() || is_broadcast(ip)
}

/// Each address once, in an order that does not depend on the answer's, and not too many.
///
/// # Errors
/// None can be used.
fn bounded(found: Vec<Found>, ttl: Option<Duration>, is_known: (bool, bool)) -> Result<Answer, String> {
    let (unfit, mut found): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|found| is_unfit(found.at.ip()));
    let unfit: Vec<IpAddr> = unfit.into_iter().map(|found| found.at.ip()).take(UNFIT_MAX).collect();
    if let (true, Some(first)) = (found.is_empty(), unfit.first()) {
        return Err(format!("the name has no address but such as {first}, where no origin can be"));
    }
    // Primaries come before backups.
    found.sort_by_key(|found| (found.at, found.role == Some(Role::Backup)));
    found.dedup_by_key(|found| found.at);
    let left_out = found.len().saturating_sub(FOUND_MAX);
    found.truncate(FOUND_MAX);
    Ok(Answer { found, left_out, unfit, ttl, is_known })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_counts_once_and_at_most_a_thousand_do() {
        let at = |number: u16| SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 80));
        let all = (0..1500).chain(0..10).map(|number| Found::of(at(number), None, None)).collect();
        let answer = bounded(all, None, (true, true)).unwrap();
        assert_eq!((answer.found.len(), answer.left_out), (1000, 500));
    }

    #[test]
    fn weights_keep_their_ratios() {
        for (given, expect) in [
            (&[60_000, 2_000][..], &[1000, 33][..]),
            (&[65_535, 65_535, 1], &[1000, 1000, 1]),
            (&[3, 1], &[3, 1]),
            (&[1000, 1], &[1000, 1]),
            (&[0, 0], &[1, 1]),
            (&[3, 0, 1], &[999, 1, 333]),
        ] {
            let scale = Scale::of(given.iter().copied());
            let weights: Vec<u32> = given.iter().map(|weight| scale.weight(*weight)).collect();
            assert_eq!(weights, expect, "{given:?}");
        }
    }

    #[test]
    fn a_ttl_with_the_highest_bit_set_is_none() {
        let s = Duration::from_secs;
        for (given, expect) in [(5, 5), (0, 0), (0x7fff_ffff, 0x7fff_ffff), (0x8000_0000, 0), (u32::MAX, 0)] {
            assert_eq!(least(None, given), Some(s(expect)), "{given}");
        }
        assert_eq!(least(Some(s(9)), 30), Some(s(9)));
    }

    #[test]
    fn addresses_of_no_single_machine_are_left_out() {
        let all = |texts: &[&str]| {
            let of = |text: &&str| Found::of(SocketAddr::new(text.parse().unwrap(), 80), None, None);
            bounded(texts.iter().map(of).collect(), None, (true, true))
        };
        let unfit = ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1", "::ffff:0.0.0.0"];
        let answer = all(&[&unfit[..], &["127.0.0.1", "::1", "10.0.0.255"]].concat()).unwrap();
        let found: Vec<String> = answer.found.iter().map(|found| found.at.ip().to_string()).collect();
        assert_eq!(found, ["10.0.0.255", "127.0.0.1", "::1"].map(str::to_owned).as_slice());
        assert_eq!(answer.unfit.len(), unfit.len());
        assert!(all(&["0.0.0.0"]).unwrap_err().contains("no address but such as 0.0.0.0"));
    }
}
