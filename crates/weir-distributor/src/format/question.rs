//! A question: what a distributor is asked for one request.

use std::net::SocketAddr;

use super::{Bad, Keys, QUESTION_BYTES_MIN, VERSION};

const MAGIC: [u8; 2] = *b"WQ";
/// Bytes before the policy's name.
const FIXED: usize = 16;

/// What is said of a question in one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u8);

impl Marks {
    /// It is for a fill: for everybody, so a denial is ignored.
    pub const FILL: Marks = Marks(1);
    /// The client asked by `https`.
    pub const HTTPS: Marks = Marks(2);
    /// The head did not fit: fields are missing.
    pub const REDUCED: Marks = Marks(4);
    /// Nor did the target: its end is missing.
    pub const CUT: Marks = Marks(8);
    /// An HMAC stands at the end.
    const SIGNED: Marks = Marks(0x80);

    /// Both.
    #[must_use]
    pub fn and(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }

    /// The other where it holds, else none of it.
    #[must_use]
    pub fn and_if(self, holds: bool, other: Marks) -> Marks {
        if holds { self.and(other) } else { self }
    }

    /// Whether it has all of these.
    pub fn has(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }

    const KNOWN: u8 = 1 | 2 | 4 | 8 | 0x80;
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'q> {
    /// Any number that nobody can guess: the answer has the same.
    pub id: u64,
    /// What is said of it.
    pub marks: Marks,
    /// The policy that decides, at most 64 bytes.
    pub policy: &'q str,
    /// The client; `None` for a fill, and where its address is not known.
    pub client: Option<SocketAddr>,
    /// The head of the request, as HTTP/1.1 prints it, with the empty line.
    pub head: &'q [u8],
}

/// The longest name of a policy in bytes.
const POLICY_MAX: usize = 64;
/// The longest printed client: an IPv6 address with its port.
const CLIENT_MAX: usize = 64;

impl<'q> Question<'q> {
    /// Bytes of a question beside its head, at most.
    pub fn bytes_around(policy: &str, keys: &Keys) -> usize {
        FIXED + policy.len() + CLIENT_MAX + keys.mac_bytes()
    }

    /// Writes it behind what stands in `out`. A head beyond 65,535 bytes does not belong here.
    pub fn write(&self, keys: &Keys, out: &mut Vec<u8>) {
        let from = out.len();
        let marks = self.marks.and_if(!keys.is_empty(), Marks::SIGNED);
        let policy = &self.policy.as_bytes()[..self.policy.len().min(POLICY_MAX)];
        let head = &self.head[..self.head.len().min(usize::from(u16::MAX))];
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, marks.0]);
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&[policy.len() as u8, 0]);
        out.extend_from_slice(&(head.len() as u16).to_be_bytes());
        out.extend_from_slice(policy);
        let client_from = out.len();
        if let Some(client) = self.client {
            // Writing to a vector does not fail.
            let _ = std::io::Write::write_fmt(out, format_args!("{client}"));
        }
        out[from + 13] = (out.len() - client_from) as u8;
        out.extend_from_slice(head);
        let shortest = QUESTION_BYTES_MIN - keys.mac_bytes();
        if out.len() - from < shortest {
            out.resize(from + shortest, 0);
        }
        keys.sign(out, from);
    }

    /// Reads one.
    ///
    /// # Errors
    /// The bytes have another form or version, or are not signed as they must be.
    pub fn read(bytes: &'q [u8], keys: &Keys) -> Result<Question<'q>, Bad> {
        if bytes.len() < QUESTION_BYTES_MIN || bytes[..2] != MAGIC {
            return Err(Bad::Malformed);
        }
        if bytes[2] != VERSION {
            return Err(Bad::Version);
        }
        let marks = Marks(bytes[3]);
        if marks.0 & !Marks::KNOWN != 0 {
            return Err(Bad::Malformed);
        }
        if marks.has(Marks::SIGNED) == keys.is_empty() {
            return Err(Bad::Forged);
        }
        let body = if keys.is_empty() { bytes } else { keys.verified(bytes).ok_or(Bad::Forged)? };
        let (fixed, rest) = body.split_first_chunk::<FIXED>().ok_or(Bad::Malformed)?;
        let [_, _, _, _, i0, i1, i2, i3, i4, i5, i6, i7, policy, client, h0, h1] = *fixed;
        let (policy, rest) = rest.split_at_checked(policy.into()).ok_or(Bad::Malformed)?;
        let (client, rest) = rest.split_at_checked(client.into()).ok_or(Bad::Malformed)?;
        let head = rest.get(..u16::from_be_bytes([h0, h1]).into()).ok_or(Bad::Malformed)?;
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| Bad::Malformed);
        if policy.is_empty() || policy.len() > POLICY_MAX {
            return Err(Bad::Malformed);
        }
        let client = match client {
            [] => None,
            client => Some(text(client)?.parse().map_err(|_| Bad::Malformed)?),
        };
        Ok(Question {
            id: u64::from_be_bytes([i0, i1, i2, i3, i4, i5, i6, i7]),
            marks: Marks(marks.0 & !Marks::SIGNED.0),
            policy: text(policy)?,
            client,
            head,
        })
    }
}
