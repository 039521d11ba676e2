//! Keys, requests and certificates: made by `rcgen`, read by `x509-parser`. No I/O.

use instant_acme::CertificateIdentifier;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair, PublicKeyData, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use thiserror::Error;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::clock::Seconds;
use crate::names::Name;
use crate::plan::Held;

/// Something is wrong with a certificate or a key.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// A key or a request cannot be made or read.
    #[error("cannot make or read a key: {0}")]
    Key(#[from] rcgen::Error),
    /// The text holds no certificate.
    #[error("it is no certificate: {0}")]
    Unreadable(String),
    /// The certificate is not for this host.
    #[error("the certificate is not for {0}")]
    OtherName(Name),
    /// The certificate is for another key.
    #[error("the certificate does not fit the key")]
    OtherKey,
    /// It is not valid any more.
    #[error("the certificate has expired")]
    Expired,
}

/// A new ECDSA P-256 key, as PEM.
///
/// # Errors
/// The system has no random numbers.
pub(crate) fn new_key() -> Result<String, CertificateError> {
    Ok(KeyPair::generate()?.serialize_pem())
}

/// The request for a certificate of one name, as DER.
///
/// # Errors
/// The key cannot be read.
pub(crate) fn request(name: &Name, key_pem: &str) -> Result<Vec<u8>, CertificateError> {
    let key = KeyPair::from_pem(key_pem)?;
    Ok(params(name)?.serialize_request(&key)?.der().to_vec())
}

/// The certificate that answers TLS-ALPN-01 (RFC 8737 §3), and its key.
///
/// # Errors
/// The system has no random numbers.
pub(crate) fn challenge(
    name: &Name,
    digest: &[u8],
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), CertificateError> {
    let key = KeyPair::generate()?;
    let mut params = params(name)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key)?;
    Ok((certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
}

fn params(name: &Name) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = vec![match name {
        Name::Dns(name) => SanType::DnsName(name.as_str().try_into()?),
        Name::Ip(address) => SanType::IpAddress(*address),
    }];
    Ok(params)
}

/// Reads a chain, and checks that its first certificate is for the name and the key.
///
/// # Errors
/// It is not, or cannot be read, or has expired.
pub(crate) fn read(
    chain_pem: &str,
    key_pem: &str,
    name: &Name,
    now: Seconds,
) -> Result<Held, CertificateError> {
    let unreadable = |error: &dyn std::fmt::Display| CertificateError::Unreadable(error.to_string());
    let leaf = CertificateDer::from_pem_slice(chain_pem.as_bytes()).map_err(|error| unreadable(&error))?;
    let (_, parsed) = X509Certificate::from_der(&leaf).map_err(|error| unreadable(&error))?;
    let names = parsed.subject_alternative_name().map_err(|error| unreadable(&error))?;
    let is_named = names.is_some_and(|names| names.value.general_names.iter().any(|other| is(name, other)));
    if !is_named {
        return Err(CertificateError::OtherName(name.clone()));
    }
    if parsed.public_key().raw != KeyPair::from_pem(key_pem)?.subject_public_key_info() {
        return Err(CertificateError::OtherKey);
    }
    let seconds = |at: i64| Seconds::try_from(at).unwrap_or(0);
    let validity = parsed.validity();
    // The last second is one in which it is valid.
    let held = Held {
        not_before: seconds(validity.not_before.timestamp()),
        not_after: seconds(validity.not_after.timestamp()),
        id: CertificateIdentifier::try_from(&leaf).ok().map(|id| id.to_string()),
    };
    if held.not_after < now { Err(CertificateError::Expired) } else { Ok(held) }
}

fn is(name: &Name, other: &GeneralName<'_>) -> bool {
    match (name, other) {
        (Name::Dns(name), GeneralName::DNSName(other)) => name.eq_ignore_ascii_case(other),
        (Name::Ip(std::net::IpAddr::V4(address)), GeneralName::IPAddress(bytes)) => {
            address.octets() == *bytes
        }
        (Name::Ip(std::net::IpAddr::V6(address)), GeneralName::IPAddress(bytes)) => {
            address.octets() == *bytes
        }
        _ => false,
    }
}

/// Parts of a text that holds a key and a chain, as [`crate::book`] writes it: the key first.
pub(crate) fn parted(text: &str) -> Option<(&str, &str)> {
    const END: &str = "-----END PRIVATE KEY-----\n";
    let end = text.find(END)? + END.len();
    Some(text.split_at(end))
}
