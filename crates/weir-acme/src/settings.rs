//! What is wanted: which CAs are asked, in which order, and for which hosts. Must not decide when.

use crate::names::{Name, Unorderable, is_lets_encrypt};

/// The directory of the default CA.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// What the configuration asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The CAs: the first is asked, the others where it fails.
    pub authorities: Vec<AuthoritySettings>,
    /// The hosts that need a certificate, as sites name them.
    pub hosts: Vec<String>,
    /// The ways to prove that a host is ours, the preferred one first; never empty.
    pub challenges: Vec<Challenge>,
}

/// A CA.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthoritySettings {
    /// The URL of its directory (RFC 8555 §7.1.1).
    pub directory: String,
    /// Contacts of the account, as URLs: `mailto:…`.
    pub contact: Vec<String>,
    /// The PEM text of the roots that its own TLS is verified by; none: the system's.
    pub roots: Option<String>,
    /// The profile of certificates (draft-ietf-acme-profiles); none: the CA's default.
    pub profile: Option<String>,
    /// External account binding (RFC 8555 §7.3.4).
    pub external: Option<ExternalAccount>,
}

/// What a CA gave out of band to bind a new account to one it knows.
#[derive(Clone, PartialEq)]
pub struct ExternalAccount {
    /// The key's name.
    pub key_id: String,
    /// The key, base64url as the CAs print it.
    pub hmac_key: String,
}

impl std::fmt::Debug for ExternalAccount {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// A way to prove that a host is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// By a plain response on port 80 (RFC 8555 §8.3).
    Http01,
    /// By a certificate in a handshake on port 443 (RFC 8737).
    TlsAlpn01,
}

impl AuthoritySettings {
    /// A CA without anything special.
    pub fn at(directory: &str) -> AuthoritySettings {
        AuthoritySettings {
            directory: directory.to_owned(),
            contact: Vec::new(),
            roots: None,
            profile: None,
            external: None,
        }
    }

    /// The profile for a name: Let's Encrypt issues for addresses in one of its profiles only.
    pub(crate) fn profile_for(&self, name: &Name) -> Option<&str> {
        match (&self.profile, name) {
            (Some(profile), _) => Some(profile),
            (None, Name::Ip(_)) if is_lets_encrypt(&self.directory) => Some("shortlived"),
            (None, _) => None,
        }
    }
}

impl Settings {
    /// The CAs that can issue for a host, by their place in the list.
    ///
    /// # Errors
    /// Why none can.
    pub fn able(&self, host: &str) -> Result<Vec<usize>, Unorderable> {
        let mut why = Unorderable::Malformed;
        let mut able = Vec::new();
        for (at, authority) in self.authorities.iter().enumerate() {
            match Name::orderable(host, &authority.directory) {
                Ok(_) => able.push(at),
                Err(reason) => why = reason,
            }
        }
        if able.is_empty() { Err(why) } else { Ok(able) }
    }
}
