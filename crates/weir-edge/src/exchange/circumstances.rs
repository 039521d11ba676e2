//! What a request's own head does not say, of one that came over a connection. It must not decide anything.

use std::net::IpAddr;
use std::time::SystemTime;

use super::asked::Asked;
use crate::route::clients::Access;
use crate::values::Circumstances;

impl Circumstances for Asked<'_> {
    fn client(&self) -> Option<IpAddr> {
        self.client_or_peer().ip()
    }

    fn request_id(&self) -> &str {
        Asked::request_id(self)
    }

    fn came(&self) -> SystemTime {
        self.now.wall
    }

    fn protocol(&self) -> &str {
        self.request.protocol
    }

    fn listener_port(&self) -> Option<u16> {
        self.request.peer.port
    }

    fn is_client_hidden(&self) -> bool {
        Asked::client(self).is_none()
    }

    fn is_refused_by(&self, access: &Access) -> bool {
        !access.admits(Asked::client(self))
    }
}
