//! Session tickets: a ring of keys for all workers and both versions of TLS, turned over from time to time,
//! and carried through upgrades. Nothing is kept of a session: the ticket is the session (RFC 5077, RFC 8446
//! §4.6.1). A ticket is of one namespace, and opens no other.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use rustls::server::ProducesTickets;

/// How long a key makes tickets.
const TURN: Duration = Duration::from_secs(6 * 3600);
/// How many keys open tickets, the one that makes them included.
const KEYS: usize = 3;
/// How long a ticket opens, at least: `TURN` for each key after its own.
const LIFETIME_S: u32 = (KEYS as u32 - 1) * TURN.as_secs() as u32;
const NAME_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;
/// A key as bytes: when it was made (seconds since 1970, big-endian), its name, its secret.
const EXPORTED_BYTES: usize = 8 + NAME_BYTES + SECRET_BYTES;
/// The first byte of an exported ring.
const FORM: u8 = 1;

/// Why a ring cannot be taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no ring of ticket keys")]
pub struct RingError;

/// The keys of tickets, the newest first.
pub struct Ring {
    keys: ArcSwap<Vec<Arc<Key>>>,
}

struct Key {
    made: SystemTime,
    name: [u8; NAME_BYTES],
    secret: [u8; SECRET_BYTES],
    seal: RandomizedNonceKey,
}

impl Ring {
    /// A ring with one key, made at `now`.
    pub fn new(now: SystemTime) -> Ring {
        Ring { keys: ArcSwap::from_pointee(vec![Arc::new(Key::random(now))]) }
    }

    /// Adds a key where the newest is old, and drops the oldest. Returns whether it did.
    pub fn turn(&self, now: SystemTime) -> bool {
        let keys = self.keys.load_full();
        let is_due = keys.first().is_none_or(|newest| {
            // A clock that was put back must not keep a key for longer.
            now.duration_since(newest.made).map_or(true, |age| age >= TURN)
        });
        if is_due {
            let newest = Arc::new(Key::random(now));
            let turned = std::iter::once(newest).chain(keys.iter().take(KEYS - 1).cloned()).collect();
            self.keys.store(Arc::new(turned));
        }
        is_due
    }

    /// The keys as bytes, for the process that takes over. They are secret.
    pub fn export(&self) -> Vec<u8> {
        let keys = self.keys.load();
        let mut bytes = Vec::with_capacity(1 + keys.len() * EXPORTED_BYTES);
        bytes.push(FORM);
        for key in keys.iter() {
            let made = key.made.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            bytes.extend_from_slice(&made.to_be_bytes());
            bytes.extend_from_slice(&key.name);
            bytes.extend_from_slice(&key.secret);
        }
        bytes
    }

    /// Takes over the keys of another process.
    ///
    /// # Errors
    /// The bytes are not what [`Ring::export`] gives.
    pub fn import(&self, bytes: &[u8]) -> Result<(), RingError> {
        let Some((&FORM, rest)) = bytes.split_first() else { return Err(RingError) };
        let (keys, rest) = rest.as_chunks::<EXPORTED_BYTES>();
        if keys.is_empty() || keys.len() > KEYS || !rest.is_empty() {
            return Err(RingError);
        }
        let keys: Option<Vec<_>> = keys.iter().map(|bytes| Some(Arc::new(Key::from_bytes(bytes)?))).collect();
        self.keys.store(Arc::new(keys.ok_or(RingError)?));
        Ok(())
    }
}

impl Key {
    #[expect(clippy::expect_used, reason = "random bytes do not fail once a process runs")]
    fn random(now: SystemTime) -> Key {
        let (mut name, mut secret) = ([0; NAME_BYTES], [0; SECRET_BYTES]);
        aws_lc_rs::rand::fill(&mut name).expect("random bytes");
        aws_lc_rs::rand::fill(&mut secret).expect("random bytes");
        Key::new(now, name, secret).expect("a secret of the length of AES-256")
    }

    fn new(made: SystemTime, name: [u8; NAME_BYTES], secret: [u8; SECRET_BYTES]) -> Option<Key> {
        let seal = RandomizedNonceKey::new(&AES_256_GCM, &secret).ok()?;
        Some(Key { made, name, secret, seal })
    }

    fn from_bytes(bytes: &[u8; EXPORTED_BYTES]) -> Option<Key> {
        let (made, rest) = bytes.split_first_chunk::<8>()?;
        let (name, secret) = rest.split_first_chunk::<NAME_BYTES>()?;
        let made = UNIX_EPOCH.checked_add(Duration::from_secs(u64::from_be_bytes(*made)))?;
        Key::new(made, *name, secret.try_into().ok()?)
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("keys", &self.keys.load().len()).finish_non_exhaustive()
    }
}

/// Makes and opens the tickets of one namespace: name of the key, nonce, sealed session, tag.
#[derive(Debug)]
pub(crate) struct Ticketer {
    ring: Arc<Ring>,
    namespace: Box<[u8]>,
}

impl Ticketer {
    pub(crate) fn new(ring: &Arc<Ring>, namespace: Box<[u8]>) -> Ticketer {
        Ticketer { ring: ring.clone(), namespace }
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_S
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.ring.keys.load();
        let key = keys.first()?;
        let mut sealed = plain.to_vec();
        let nonce = key.seal.seal_in_place_append_tag(Aad::from(&self.namespace), &mut sealed).ok()?;
        let mut ticket = Vec::with_capacity(NAME_BYTES + NONCE_LEN + sealed.len());
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(nonce.as_ref());
        ticket.extend_from_slice(&sealed);
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.ring.keys.load();
        let key = keys.iter().find(|key| key.name == *name)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = key.seal.open_in_place(nonce, Aad::from(&self.namespace), &mut sealed).ok()?;
        let length = plain.len();
        sealed.truncate(length);
        Some(sealed)
    }
}

#[cfg(test)]
mod tests;
