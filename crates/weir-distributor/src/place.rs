//! Where a distributor is: `udp://10.0.0.5:10010`, `tcp://[2001:db8::1]:10010`, `unix:/run/d.sock`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a distributor is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It takes datagrams.
    Udp(SocketAddr),
    /// It takes connections.
    Tcp(SocketAddr),
    /// It takes connections to a socket in the file system.
    Unix(PathBuf),
}

/// A text is no place of a distributor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlaceError(pub &'static str);

impl Place {
    /// Whether it takes questions of any length.
    pub fn is_stream(&self) -> bool {
        !matches!(self, Place::Udp(_))
    }
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Place, PlaceError> {
        let address = |text: &str| {
            let address: SocketAddr = text.parse().map_err(|_| {
                PlaceError("an IP address with a port belongs here, like `udp://10.0.0.5:10010`")
            })?;
            match address.port() {
                0 => Err(PlaceError("the port 0 cannot be asked")),
                _ => Ok(address),
            }
        };
        match text.split_once(':') {
            Some(("udp", rest)) if rest.starts_with("//") => address(&rest[2..]).map(Place::Udp),
            Some(("tcp", rest)) if rest.starts_with("//") => address(&rest[2..]).map(Place::Tcp),
            Some(("unix", path)) if path.starts_with('/') && path.len() < 108 => Ok(Place::Unix(path.into())),
            Some(("unix", _)) => Err(PlaceError("a path from `/` on, of less than 108 bytes, belongs here")),
            _ => Err(PlaceError("it begins with `udp://`, `tcp://` or `unix:`")),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Udp(address) => write!(f, "udp://{address}"),
            Place::Tcp(address) => write!(f, "tcp://{address}"),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
