//! Stages for tests: one that changes nothing, and one for each way in which a stage can be hard to run.

use bytes::Bytes;

use crate::{Cut, OUT_BYTES_MAX, Out, Rest, Stage};

/// The most bytes that [`HoldsBack`] holds.
pub const HELD_BYTES_MAX: usize = 48 << 10;
/// The byte at which [`Refuses`] cuts.
pub const REFUSED: u8 = 0xee;

/// A kind of stage, with what comes out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Changes nothing.
    Unchanged,
    /// Puts each byte twice.
    Doubles,
    /// Puts each byte a hundred times: far more than there is room for.
    Swells,
    /// Puts nothing.
    Swallows,
    /// Puts nothing until the end, and then everything; cuts a body of more than [`HELD_BYTES_MAX`].
    HoldsBack,
    /// Puts each byte as a piece of its own.
    Crumbles,
    /// Cuts at [`REFUSED`].
    Refuses,
}

impl Kind {
    /// All.
    pub const ALL: [Kind; 7] = [
        Kind::Unchanged,
        Kind::Doubles,
        Kind::Swells,
        Kind::Swallows,
        Kind::HoldsBack,
        Kind::Crumbles,
        Kind::Refuses,
    ];

    /// One that has taken nothing.
    pub fn stage(self) -> Box<dyn Stage> {
        match self {
            Kind::Unchanged => Box::new(Unchanged),
            Kind::Doubles => Box::new(Repeats { times: 2 }),
            Kind::Swells => Box::new(Repeats { times: 100 }),
            Kind::Swallows => Box::new(Swallows),
            Kind::HoldsBack => Box::new(HoldsBack::default()),
            Kind::Crumbles => Box::new(Crumbles),
            Kind::Refuses => Box::new(Refuses),
        }
    }

    /// What comes of a whole body, and whether it ends.
    pub fn expect(self, body: &[u8]) -> (Vec<u8>, Result<(), Cut>) {
        match self {
            Kind::Unchanged | Kind::Crumbles => (body.to_vec(), Ok(())),
            Kind::Doubles => (repeated(body, 2), Ok(())),
            Kind::Swells => (repeated(body, 100), Ok(())),
            Kind::Swallows => (Vec::new(), Ok(())),
            Kind::HoldsBack if body.len() > HELD_BYTES_MAX => (Vec::new(), Err(TOO_MUCH)),
            Kind::HoldsBack => (body.to_vec(), Ok(())),
            Kind::Refuses => match body.iter().position(|byte| *byte == REFUSED) {
                Some(at) => (body[..at].to_vec(), Err(REFUSES)),
                None => (body.to_vec(), Ok(())),
            },
        }
    }
}

fn repeated(bytes: &[u8], times: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len() * times);
    bytes.iter().for_each(|byte| all.resize(all.len() + times, *byte));
    all
}

const TOO_MUCH: Cut = Cut { word: "held-too-much" };
const REFUSES: Cut = Cut { word: "refused-byte" };

struct Unchanged;

impl Stage for Unchanged {
    fn take(&mut self, bytes: &mut Bytes, out: &mut Out) -> Result<(), Cut> {
        out.put(bytes.split_to(bytes.len().min(out.room())))
    }

    fn end(&mut self, _: &mut Out) -> Result<Rest, Cut> {
        Ok(Rest::Nothing)
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn held_bytes_max(&self) -> usize {
        0
    }
}

struct Repeats {
    times: usize,
}

impl Stage for Repeats {
    fn take(&mut self, bytes: &mut Bytes, out: &mut Out) -> Result<(), Cut> {
        let taken = bytes.split_to(bytes.len().min(out.room() / self.times));
        out.put(repeated(&taken, self.times).into())
    }

    fn end(&mut self, _: &mut Out) -> Result<Rest, Cut> {
        Ok(Rest::Nothing)
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn held_bytes_max(&self) -> usize {
        0
    }
}

struct Swallows;

impl Stage for Swallows {
    fn take(&mut self, bytes: &mut Bytes, _: &mut Out) -> Result<(), Cut> {
        bytes.clear();
        Ok(())
    }

    fn end(&mut self, _: &mut Out) -> Result<Rest, Cut> {
        Ok(Rest::Nothing)
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn held_bytes_max(&self) -> usize {
        0
    }
}

#[derive(Default)]
struct HoldsBack {
    held: Vec<u8>,
}

impl Stage for HoldsBack {
    fn take(&mut self, bytes: &mut Bytes, _: &mut Out) -> Result<(), Cut> {
        if self.held.len() + bytes.len() > HELD_BYTES_MAX {
            return Err(TOO_MUCH);
        }
        self.held.extend_from_slice(bytes);
        bytes.clear();
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> Result<Rest, Cut> {
        // Less than there is room for, so that it has to be asked again.
        let some = self.held.drain(..self.held.len().min(OUT_BYTES_MAX / 64).min(out.room())).collect();
        out.put(some)?;
        Ok(if self.held.is_empty() { Rest::Nothing } else { Rest::More })
    }

    fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn held_bytes_max(&self) -> usize {
        HELD_BYTES_MAX
    }
}

struct Crumbles;

impl Stage for Crumbles {
    fn take(&mut self, bytes: &mut Bytes, out: &mut Out) -> Result<(), Cut> {
        while !bytes.is_empty() && out.room() > 0 {
            out.put(bytes.split_to(1))?;
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Out) -> Result<Rest, Cut> {
        Ok(Rest::Nothing)
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn held_bytes_max(&self) -> usize {
        0
    }
}

struct Refuses;

impl Stage for Refuses {
    fn take(&mut self, bytes: &mut Bytes, out: &mut Out) -> Result<(), Cut> {
        let most = bytes.len().min(out.room());
        match bytes[..most].iter().position(|byte| *byte == REFUSED) {
            Some(at) => {
                out.put(bytes.split_to(at))?;
                Err(REFUSES)
            }
            None => out.put(bytes.split_to(most)),
        }
    }

    fn end(&mut self, _: &mut Out) -> Result<Rest, Cut> {
        Ok(Rest::Nothing)
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn held_bytes_max(&self) -> usize {
        0
    }
}
