//! An answer to a question.

use std::io::Write;

use super::{ANSWER_BYTES_MAX, Answer, Bad, Keys, VERSION};

const MAGIC: [u8; 2] = *b"WA";
/// Bytes before the text.
const FIXED: usize = 12;
/// The kinds of answers.
const NOTHING: u8 = 0;
const ADDRESS: u8 = 1;
const DENIAL: u8 = 2;
/// Beside the kind: an HMAC stands at the end.
const SIGNED: u8 = 0x80;

/// What can be read of an answer before it is known to belong to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// The number of the question.
    pub id: u64,
    kind: u8,
}

impl AnswerHead {
    /// Reads the beginning of an answer.
    ///
    /// # Errors
    /// The bytes have another form or version.
    pub fn read(bytes: &[u8]) -> Result<AnswerHead, Bad> {
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(Bad::Malformed);
        }
        let fixed = bytes.first_chunk::<FIXED>().ok_or(Bad::Malformed)?;
        let [m0, m1, version, kind, i0, i1, i2, i3, i4, i5, i6, i7] = *fixed;
        match ([m0, m1], version) {
            (MAGIC, VERSION) => {
                Ok(AnswerHead { id: u64::from_be_bytes([i0, i1, i2, i3, i4, i5, i6, i7]), kind })
            }
            (MAGIC, _) => Err(Bad::Version),
            _ => Err(Bad::Malformed),
        }
    }

    /// The answer itself; `bytes` are those that the head was read from.
    ///
    /// # Errors
    /// It has another form, or is not signed as it must be.
    pub fn answer(self, bytes: &[u8], keys: &Keys) -> Result<Answer, Bad> {
        if (self.kind & SIGNED != 0) == keys.is_empty() {
            return Err(Bad::Forged);
        }
        let body = if keys.is_empty() { bytes } else { keys.verified(bytes).ok_or(Bad::Forged)? };
        let text = body.get(FIXED..).and_then(|text| std::str::from_utf8(text).ok()).ok_or(Bad::Malformed)?;
        match self.kind & !SIGNED {
            NOTHING if text.is_empty() => Ok(Answer::Nothing),
            ADDRESS => text.parse().map(Answer::Address).map_err(|_| Bad::Malformed),
            DENIAL => denial(text).ok_or(Bad::Malformed),
            _ => Err(Bad::Malformed),
        }
    }
}

/// `403`, or `429 30`.
fn denial(text: &str) -> Option<Answer> {
    let number = |text: &str| {
        let is_plain = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| text.parse::<u32>().ok())?
    };
    let (status, retry_after) = match text.split_once(' ') {
        None => (text, None),
        Some((status, seconds)) => (status, Some(number(seconds)?)),
    };
    let status = number(status).filter(|status| (400..600).contains(status))?;
    Some(Answer::Denial { status: status as u16, retry_after })
}

impl Answer {
    /// Writes it as the answer to the question of this number, behind what stands in `out`.
    pub fn write(&self, id: u64, keys: &Keys, out: &mut Vec<u8>) {
        let from = out.len();
        let kind = match self {
            Answer::Nothing => NOTHING,
            Answer::Address(_) => ADDRESS,
            Answer::Denial { .. } => DENIAL,
        };
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, if keys.is_empty() { kind } else { kind | SIGNED }]);
        out.extend_from_slice(&id.to_be_bytes());
        // Writing to a vector does not fail.
        let _ = write!(out, "{self}");
        keys.sign(out, from);
    }
}
