//! Where to listen, as written in the configuration: `127.0.0.1:8080`,
//! `[::1]:8080`, `unix:/run/weir.sock`, `unix:/run/weir.sock?mode=0660`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The default mode of a Unix socket's file: owner and group.
const UNIX_MODE: u32 = 0o660;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// TCP over IPv4 or IPv6. `[::]` means IPv6 only; for both, name `0.0.0.0` as well.
    Tcp(SocketAddr),
    /// A Unix stream socket and the mode of its file.
    Unix {
        /// The file.
        path: PathBuf,
        /// Its permissions, e.g. `0o660`.
        mode: u32,
    },
}

/// Why a text is not an address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither `IP:PORT` nor `unix:PATH`.
    #[error("`{0}` is no address to listen on; write 127.0.0.1:8080, [::1]:8080 or unix:/run/weir.sock")]
    Unreadable(String),
    /// A Unix path that is empty or longer than the kernel allows.
    #[error("a unix socket's path has 1 to 103 bytes, `{0}` has {len}", len = .0.len())]
    Path(String),
    /// The mode is not octal or above 0777.
    #[error("`{0}` is no file mode; write octal digits such as mode=0660")]
    Mode(String),
}

impl Address {
    /// Whether `other` is the same address, whatever the mode.
    pub fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(a), Self::Tcp(b)) => a == b,
            (Self::Unix { path: a, .. }, Self::Unix { path: b, .. }) => a == b,
            _ => false,
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let Some(rest) = text.strip_prefix("unix:") else {
            return text.parse().map(Self::Tcp).map_err(|_| AddressError::Unreadable(text.to_owned()));
        };
        let (path, mode) = match rest.split_once("?mode=") {
            Some((path, mode)) => (path, unix_mode(mode)?),
            None => (rest, UNIX_MODE),
        };
        // The kernel's limit is 108 with the final zero. 4 are kept for the temporary name.
        if path.is_empty() || path.len() > 103 || path.contains('\0') {
            return Err(AddressError::Path(path.to_owned()));
        }
        Ok(Self::Unix { path: PathBuf::from(path), mode })
    }
}

fn unix_mode(text: &str) -> Result<u32, AddressError> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match u32::from_str_radix(text, 8) {
        Ok(mode) if digits && mode <= 0o777 => Ok(mode),
        _ => Err(AddressError::Mode(text.to_owned())),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(at) => at.fmt(f),
            Self::Unix { path, .. } => write!(f, "unix:{}", path.display()),
        }
    }
}
