//! Where a page ended, in bytes. They mean something to this process and those after it, and to nobody else;
//! what makes no sense is refused.

use bytes::{Buf, BufMut};

use super::listed::Unlisted;
use crate::volume::Place;

const MERGED: u8 = 0;
const WALKED: u8 = 1;
const BESIDES: u8 = 2;
/// The most volumes that a token names.
const VOLUMES_MAX: usize = 255;

/// Where a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Objects from this number on were begun after the first page.
    pub(super) numbers_end: u64,
    /// The volumes that are walked.
    pub(super) walked: Vec<u128>,
    pub(super) at: At,
}

/// The place itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum At {
    /// Behind this key among what is listed besides; empty: at its beginning.
    Besides(Vec<u8>),
    /// Behind this name among all that is merged; empty: at its beginning.
    Merged(Vec<u8>),
    /// At this place of this volume; of those that are walked, the ones before it are done.
    Walked(u128, Place),
}

impl Token {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![match self.at {
            At::Besides(_) => BESIDES,
            At::Merged(_) => MERGED,
            At::Walked(..) => WALKED,
        }];
        out.put_u64(self.numbers_end);
        out.put_u8(self.walked.len().min(VOLUMES_MAX) as u8);
        self.walked.iter().take(VOLUMES_MAX).for_each(|id| out.put_u128(*id));
        match &self.at {
            At::Besides(name) | At::Merged(name) => out.put_slice(name),
            At::Walked(id, place) => {
                out.put_u128(*id);
                out.put_u64(place.segment);
                out.put_u32(place.unit);
            }
        }
        out
    }

    /// # Errors
    /// [`Unlisted::After`].
    pub(super) fn read(bytes: &[u8]) -> Result<Token, Unlisted> {
        let mut cursor = bytes;
        Token::from(&mut cursor).filter(|token| token.to_bytes() == bytes).ok_or(Unlisted::After)
    }

    fn from(cursor: &mut &[u8]) -> Option<Token> {
        let kind = cursor.try_get_u8().ok()?;
        let numbers_end = cursor.try_get_u64().ok()?;
        let count = cursor.try_get_u8().ok()?;
        let walked = (0..count).map(|_| cursor.try_get_u128().ok()).collect::<Option<_>>()?;
        let at = match kind {
            BESIDES => At::Besides(cursor.to_vec()),
            MERGED => At::Merged(cursor.to_vec()),
            WALKED => {
                let id = cursor.try_get_u128().ok()?;
                let segment = cursor.try_get_u64().ok()?;
                At::Walked(id, Place { segment, unit: cursor.try_get_u32().ok()? })
            }
            _ => return None,
        };
        Some(Token { numbers_end, walked, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let merged = Token { numbers_end: 7, walked: vec![1, u128::MAX], at: At::Merged(b"\x01ab".to_vec()) };
        let walked = At::Walked(9, Place { segment: 1 << 40, unit: 3 });
        let walked = Token { numbers_end: u64::MAX, walked: Vec::new(), at: walked };
        let besides = Token { at: At::Besides(b"a.test/".to_vec()), ..merged.clone() };
        for token in [merged, besides, walked.clone()] {
            assert_eq!(Token::read(&token.to_bytes()), Ok(token));
        }
        let bytes = walked.to_bytes();
        for length in 0..bytes.len() {
            assert_eq!(Token::read(&bytes[..length]), Err(Unlisted::After), "{length}");
        }
        assert_eq!(Token::read(&[&bytes[..], &[0]].concat()), Err(Unlisted::After));
        assert_eq!(Token::read(&[9; 30]), Err(Unlisted::After));
    }
}
