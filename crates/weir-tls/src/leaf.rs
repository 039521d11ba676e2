//! What a certificate says of itself (RFC 5280). It verifies nothing.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use crate::Names;

/// Why a certificate cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LeafError(String);

/// What a certificate says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Whom it is for.
    pub names: Names,
    /// Since when it is valid.
    pub not_before: SystemTime,
    /// Until when it is valid.
    pub not_after: SystemTime,
    /// The common name of its subject, for logs.
    pub common_name: Option<Box<str>>,
}

impl Leaf {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// It is no certificate.
    pub fn read(der: &[u8]) -> Result<Leaf, LeafError> {
        let (rest, certificate) =
            X509Certificate::from_der(der).map_err(|error| LeafError(error.to_string()))?;
        if !rest.is_empty() {
            return Err(LeafError("there are bytes behind it".to_owned()));
        }
        let mut dns = Vec::new();
        let mut addresses = Vec::new();
        let names = certificate.subject_alternative_name().map_err(|error| LeafError(error.to_string()))?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::DNSName(name) => dns.push(*name),
                GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
                _ => {}
            }
        }
        let validity = certificate.validity();
        let common_name = certificate.subject().iter_common_name().next();
        Ok(Leaf {
            names: Names::new(dns, addresses),
            not_before: time(validity.not_before),
            not_after: time(validity.not_after),
            common_name: common_name.and_then(|name| name.as_str().ok()).map(Into::into),
        })
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match *bytes {
        [a, b, c, d] => Some(IpAddr::from([a, b, c, d])),
        _ => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    }
}

/// A time before 1970 is as good as 1970.
fn time(time: ASN1Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0))
}
