//! Heads as the crate `h2` takes them: maps of fields. A core keeps the maps of heads that it sends again and
//! again, so that a stored head is cut into fields once and not for each hit. It must not change a field.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::message::{Fields, Head, Late, Prepared};

/// Heads that a core keeps, and the longest of them. A map takes about three times as much.
const KEPT_MAX: usize = 64;
const KEPT_BYTES_MAX: usize = 2 << 10;

thread_local! {
    static HEADS: RefCell<Heads> = const { RefCell::new(Heads { kept: Vec::new(), late: Vec::new() }) };
    /// Connections of this core.
    static CONNECTIONS: Cell<usize> = const { Cell::new(0) };
}

/// What is kept, at the place that the head's address gives it.
#[derive(Default)]
struct Heads {
    kept: Vec<Kept>,
    /// The late fields of the response at hand.
    late: Vec<u8>,
}

/// A head that was sent.
#[derive(Default)]
struct Kept {
    /// Its text, known by its address: nothing else can be there while it is held here.
    text: Bytes,
    /// What was added to it.
    late: Vec<u8>,
    length: Option<u64>,
    /// All fields, once it was sent twice without another in between.
    fields: Option<HeaderMap>,
}

/// Says that a connection sends heads, until it is dropped. With the last connection of a core go its heads.
pub(super) struct Sender(());

impl Sender {
    pub(super) fn begin() -> Sender {
        CONNECTIONS.set(CONNECTIONS.get() + 1);
        Sender(())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        CONNECTIONS.set(CONNECTIONS.get() - 1);
        if CONNECTIONS.get() == 0 {
            // At the end of the thread they may be gone already.
            let _ = HEADS.try_with(RefCell::take);
        }
    }
}

/// All fields of a head, with the late ones and the declared length.
pub(super) fn fields(head: Head, late: &impl Late, length: Option<u64>) -> HeaderMap {
    match &head {
        Head::Prepared(prepared) if prepared.text().len() <= KEPT_BYTES_MAX => {
            HEADS.with_borrow_mut(|heads| heads.fields(prepared, late, length))
        }
        _ => made(head, late, length),
    }
}

/// What a field takes in memory beside its name and value.
const FIELD_BYTES: usize = 104;

/// What fields take in memory.
pub(super) fn memory_bytes(fields: &HeaderMap) -> usize {
    let texts: usize = fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    texts + fields.len() * FIELD_BYTES
}

fn made(head: Head, late: &impl Late, length: Option<u64>) -> HeaderMap {
    let mut fields = head.fields(late);
    if let Some(length) = length {
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    fields
}

impl Heads {
    fn fields(&mut self, prepared: &Prepared, late: &impl Late, length: Option<u64>) -> HeaderMap {
        self.late.clear();
        late.write(&mut AsText(&mut self.late));
        if self.kept.is_empty() {
            self.kept.resize_with(KEPT_MAX, Kept::default);
        }
        let text = prepared.text();
        let address = text.as_ptr() as usize;
        let kept = &mut self.kept[(address >> 4 ^ address >> 10) % KEPT_MAX];
        let is_known = kept.text.as_ptr() == text.as_ptr() && kept.text.len() == text.len();
        if let Some(fields) = &kept.fields
            && is_known
            && kept.length == length
            && kept.late == self.late
        {
            return fields.clone();
        }
        let fields = made(Head::Prepared(prepared.clone()), late, length);
        if !is_known {
            *kept = Kept { text: text.clone(), ..Kept::default() };
        } else {
            // Ages and lifetimes change once a second.
            kept.late.clone_from(&self.late);
            (kept.length, kept.fields) = (length, Some(fields.clone()));
        }
        fields
    }
}

/// Fields as lines, to be compared.
struct AsText<'t>(&'t mut Vec<u8>);

impl Fields for AsText<'_> {
    fn add(&mut self, name: &'static str, value: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b':');
        value(self.0);
        self.0.push(b'\n');
    }

    fn field(&mut self, name: &HeaderName, value: &[u8]) {
        for part in [name.as_str().as_bytes(), b":", value, b"\n"] {
            self.0.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests;
