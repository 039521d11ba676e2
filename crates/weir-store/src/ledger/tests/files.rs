//! Files in memory that fail when they are told to, and lose at a cut of the power what was not synced.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::LedgerFiles;

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing is done. A failed sync loses what was written since the last one: zeros take its place.
    Fail,
    /// A part of it is done.
    Torn,
}

/// A file: what a cut of the power leaves of it, and what is read meanwhile.
#[derive(Debug, Clone, Default)]
struct Content {
    durable: Vec<u8>,
    present: Vec<u8>,
}

/// By number; names are another matter.
type Number = usize;

#[derive(Debug, Default)]
struct Disk {
    contents: Vec<Content>,
    names: HashMap<String, Number>,
    durable_names: HashMap<String, Number>,
    open: Option<Number>,
    fault: Option<(usize, Fault)>,
    syncs: usize,
    is_held: bool,
    /// Grows with each cut: who held files before has none any more.
    life: u64,
}

/// The disk, and the hand on its plug.
#[derive(Debug, Clone, Default)]
pub(crate) struct Power(Arc<(Mutex<Disk>, Condvar)>);

/// The files as one process has them.
#[derive(Debug)]
pub(crate) struct Files {
    power: Power,
    life: u64,
}

fn no_space() -> io::Error {
    io::Error::other("no space left on the simulated disk")
}

impl Power {
    pub(crate) fn new() -> Power {
        Power::default()
    }

    pub(crate) fn files(&self) -> Files {
        Files { life: self.0.0.lock().life, power: self.clone() }
    }

    /// The operation after that many fails, once.
    pub(crate) fn fail_from_now(&self, operations: usize, fault: Fault) {
        self.0.0.lock().fault = Some((operations, fault));
    }

    /// Operations wait until they are released.
    pub(crate) fn hold(&self) {
        self.0.0.lock().is_held = true;
    }

    pub(crate) fn release(&self) {
        self.0.0.lock().is_held = false;
        self.0.1.notify_all();
    }

    pub(crate) fn syncs(&self) -> usize {
        self.0.0.lock().syncs
    }

    pub(crate) fn length(&self, name: &str) -> usize {
        let disk = self.0.0.lock();
        disk.names.get(name).map_or(0, |number| disk.contents[*number].present.len())
    }

    /// What a file has; `None` where there is none.
    pub(crate) fn content(&self, name: &str) -> Option<Vec<u8>> {
        let disk = self.0.0.lock();
        disk.names.get(name).map(|number| disk.contents[*number].present.clone())
    }

    /// Puts another file there, or none, durably: behind the back of who has it open.
    pub(crate) fn put(&self, name: &str, bytes: Option<&[u8]>) {
        let mut disk = self.0.0.lock();
        disk.names.remove(name);
        disk.durable_names.remove(name);
        if let Some(bytes) = bytes {
            disk.contents.push(Content { durable: bytes.to_vec(), present: bytes.to_vec() });
            let number = disk.contents.len() - 1;
            disk.names.insert(name.to_owned(), number);
            disk.durable_names.insert(name.to_owned(), number);
        }
    }

    pub(crate) fn flip(&self, name: &str, at: usize) {
        let mut disk = self.0.0.lock();
        let number = disk.names[name];
        disk.contents[number].present[at] ^= 1;
        disk.contents[number].durable[at] ^= 1;
    }

    /// Cuts the power: of what was not synced the seed says how much is left, and what of the names.
    pub(crate) fn cut(&self, seed: u64) {
        let mut disk = self.0.0.lock();
        let mut random = seed;
        let mut next = |bound: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % bound.max(1)
        };
        for content in &mut disk.contents {
            let unsynced = content.present.len().saturating_sub(content.durable.len());
            let mut kept = content.durable.clone();
            let more = next(unsynced + 1);
            let from = kept.len();
            kept.extend_from_slice(content.present.get(from..from + more).unwrap_or_default());
            // The file's length may be on disk before its last bytes are.
            if next(3) == 0 && more < unsynced {
                kept.resize(from + unsynced, 0);
            }
            *content = Content { durable: kept.clone(), present: kept };
        }
        if next(2) == 0 {
            disk.durable_names = disk.names.clone();
        }
        disk.names = disk.durable_names.clone();
        (disk.open, disk.fault, disk.is_held) = (None, None, false);
        disk.life += 1;
        self.0.1.notify_all();
    }
}

impl Files {
    /// One operation: what is done of it, `false` standing for a part, and how it ends.
    fn act<T>(&mut self, act: impl FnOnce(&mut Disk, Option<Fault>) -> T) -> io::Result<T> {
        let mut disk = self.power.0.0.lock();
        while disk.is_held {
            self.power.0.1.wait(&mut disk);
        }
        if disk.life != self.life {
            return Err(io::Error::other("this process has lost its power"));
        }
        let fault = match &mut disk.fault {
            Some((0, _)) => disk.fault.take().map(|(_, fault)| fault),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        };
        let done = act(&mut disk, fault);
        if fault.is_some() { Err(no_space()) } else { Ok(done) }
    }
}

impl LedgerFiles for Files {
    fn read(&mut self, name: &str, _bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        self.act(|disk, _| disk.names.get(name).map(|number| disk.contents[*number].present.clone()))
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.act(|disk, fault| {
            if fault == Some(Fault::Fail) {
                return;
            }
            let count = if fault.is_some() { bytes.len() / 2 } else { bytes.len() };
            disk.contents.push(Content { durable: Vec::new(), present: bytes[..count].to_vec() });
            let number = disk.contents.len() - 1;
            disk.names.insert(name.to_owned(), number);
            disk.open = Some(number);
        })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.act(|disk, fault| {
            let count = match fault {
                None => bytes.len(),
                Some(Fault::Fail) => 0,
                Some(Fault::Torn) => bytes.len() / 2,
            };
            let number = disk.open.unwrap();
            disk.contents[number].present.extend_from_slice(&bytes[..count]);
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.act(|disk, fault| {
            disk.syncs += 1;
            let number = disk.open.unwrap();
            let content = &mut disk.contents[number];
            let from = content.durable.len();
            if fault.is_some() {
                content.present[from..].fill(0);
            }
            if fault != Some(Fault::Fail) {
                content.durable = content.present.clone();
            }
        })
    }

    fn is_named(&mut self, name: &str) -> io::Result<bool> {
        let disk = self.power.0.0.lock();
        Ok(disk.names.get(name).copied() == disk.open)
    }

    fn overwrite(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.act(|disk, fault| {
            let bytes = match fault {
                Some(Fault::Fail) => return,
                Some(Fault::Torn) => &bytes[..bytes.len() / 2],
                None => bytes,
            };
            disk.contents.push(Content { durable: bytes.to_vec(), present: bytes.to_vec() });
            let number = disk.contents.len() - 1;
            disk.names.insert(name.to_owned(), number);
            disk.durable_names.insert(name.to_owned(), number);
        })
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.act(|disk, fault| {
            if fault != Some(Fault::Fail)
                && let Some(number) = disk.names.remove(from)
            {
                disk.names.insert(to.to_owned(), number);
            }
        })
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.act(|disk, fault| {
            if fault != Some(Fault::Fail) {
                disk.durable_names = disk.names.clone();
            }
        })
    }
}
