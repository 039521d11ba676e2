//! `[debug] allow` that lets everybody see. It must not ask who a client is.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::model::Config;
use crate::source::Sources;
use crate::tree::Node;
use crate::value::TrustedProxy;

/// A warning where all addresses that there are on the internet may see, of either family.
pub(crate) fn of_debug(config: &Config, tree: &Node, sources: &Sources) -> Option<String> {
    let nets = config.debug.allow.iter().filter_map(|allowed| match allowed {
        TrustedProxy::Net(net) => Some(*net),
        TrustedProxy::Unix => None,
    });
    // Two halves are the whole.
    let nets = IpNet::aggregate(&nets.collect());
    let everybody = [
        IpNet::V4(Ipv4Net::new_assert([0, 0, 0, 0].into(), 0)),
        // All global unicast addresses (RFC 4291 §2.4).
        IpNet::V6(Ipv6Net::new_assert([0x2000, 0, 0, 0, 0, 0, 0, 0].into(), 3)),
    ];
    let found = everybody.iter().find(|all| nets.iter().any(|net| net.contains(*all)))?;
    let family = if matches!(found, IpNet::V4(_)) { "IPv4" } else { "IPv6" };
    let place = sources.place(tree.get("debug")?.get("allow")?.span);
    Some(format!(
        "{place}: `allow` lets everybody with an {family} address see keys, tags and places of responses by \
         `Weir-Debug: 1`; name the networks of operators"
    ))
}
