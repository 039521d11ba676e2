//! Where a request must have come in for a route: at which host, and by which port of ours. Pure.

use weir_config::Conditions;
use weir_config::value::RouteHost;
use weir_policy::RequestView;

/// The hosts and ports of a route.
#[derive(Debug)]
pub(super) struct Place {
    /// Empty: every host.
    hosts: Vec<RouteHost>,
    /// Empty: every port, and unix sockets.
    ports: Vec<u16>,
}

impl Place {
    /// None where a route is for all of them.
    pub(super) fn compile(conditions: &Conditions) -> Option<Box<Place>> {
        let Conditions { hosts, ports, .. } = conditions;
        let is_somewhere = !hosts.is_empty() || !ports.is_empty();
        is_somewhere.then(|| Box::new(Place { hosts: hosts.clone(), ports: ports.clone() }))
    }

    pub(super) fn has_host(&self, view: &RequestView<'_>) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|host| host.fits(view.hostname()))
    }

    pub(super) fn has_port(&self, port: Option<u16>) -> bool {
        self.ports.is_empty() || port.is_some_and(|port| self.ports.contains(&port))
    }

    /// Whether it is for some hosts alone.
    pub(super) fn names_hosts(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Whether it is for some ports alone.
    pub(super) fn names_ports(&self) -> bool {
        !self.ports.is_empty()
    }
}
