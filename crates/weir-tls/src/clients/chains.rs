//! Chains of clients' certificates: a longer one than authorities issue is refused before anything of it is
//! verified, since a chain may be made so that verifying it tries its certificates in many orders. It must
//! not verify a signature.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};

/// The most certificates that a client may show, its own among them.
const CHAIN_MAX: usize = 4;

/// Why a chain is refused.
#[derive(Debug, thiserror::Error)]
#[error("the client shows more than {CHAIN_MAX} certificates")]
struct TooLong;

/// Verifies chains that are not too long.
#[derive(Debug)]
pub(super) struct ShortChains(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for ShortChains {
    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if others.len() >= CHAIN_MAX {
            let why = CertificateError::Other(OtherError(Arc::new(TooLong)));
            return Err(Error::InvalidCertificate(why));
        }
        self.0.verify_client_cert(own, others, now)
    }

    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.0.requires_raw_public_keys()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustls::client::danger::HandshakeSignatureValid;
    use rustls::pki_types::{CertificateDer, UnixTime};
    use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
    use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

    use super::{CHAIN_MAX, ShortChains};

    /// Counts what it is asked to verify.
    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    impl ClientCertVerifier for Counting {
        fn root_hint_subjects(&self) -> &[DistinguishedName] {
            &[]
        }

        fn verify_client_cert(
            &self,
            _own: &CertificateDer<'_>,
            _others: &[CertificateDer<'_>],
            _now: UnixTime,
        ) -> Result<ClientCertVerified, Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(ClientCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::DecryptError)
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::DecryptError)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            Vec::new()
        }
    }

    #[test]
    fn nothing_of_a_long_chain_is_verified() {
        let counting = Arc::new(Counting::default());
        let chains = ShortChains(counting.clone());
        let cert = || CertificateDer::from(vec![0]);
        let shown = |others: usize| {
            let others: Vec<_> = (0..others).map(|_| cert()).collect();
            chains.verify_client_cert(&cert(), &others, UnixTime::since_unix_epoch(std::time::Duration::ZERO))
        };
        for others in [0, CHAIN_MAX - 1] {
            assert!(shown(others).is_ok());
        }
        assert_eq!(counting.0.load(Ordering::Relaxed), 2);
        for others in [CHAIN_MAX, 40] {
            let error = shown(others).unwrap_err();
            assert!(crate::TlsError::from(error).is_of_certificate());
        }
        assert_eq!(counting.0.load(Ordering::Relaxed), 2);
    }
}
