//! Certificates that Weir signs itself, for development.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};

/// How long they are valid: as long as browsers take one.
const LIFETIME: Duration = Duration::from_secs(397 * 86_400);
/// How far clients' clocks may be behind.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// A certificate for `names` (DNS names or addresses), signed with its own key: both in DER.
///
/// # Errors
/// A name that no certificate can have.
pub fn self_signed(names: &[String], now: SystemTime) -> Result<(Vec<u8>, Vec<u8>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Weir, for development");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + LIFETIME).into();
    let certificate = params.self_signed(&key)?;
    Ok((certificate.der().to_vec(), key.serialize_der()))
}
