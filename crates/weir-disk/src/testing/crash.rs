//! A disk in memory that loses power and fails: the double on which the volume is proven.
//!
//! It models the page cache. Written bytes can be read at once. A power cut keeps what was synced, and of
//! each later write all, nothing or some sectors, whatever became of the writes before it. Names that were
//! made, removed or changed since their folder was last synced are kept in part as well. A failed sync is
//! forgotten: the next one returns `Ok`, and what the failed one was asked for is lost at the power cut.
//! Every operation has a number, so that a test can fail each in turn.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{Disk, DiskFile, Identity, Room};

const SECTOR_BYTES: usize = 512;
/// A read of this many bytes counts as one of whole blocks.
const BLOCK_BYTES: usize = 65536;

/// What happens at an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device fails, once.
    Io,
    /// The file system is full, once. A part of the write may have been made.
    Full,
    /// The power goes: this operation and all later ones fail until [`CrashDisk::restart`].
    PowerCut,
}

/// A change to a file that is not durable.
#[derive(Debug, Clone)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Truncate(u64),
}

#[derive(Debug, Default)]
struct Content {
    /// What the device has.
    durable: Vec<u8>,
    /// What readers see.
    seen: Vec<u8>,
    /// The writes since the last sync.
    pending: Vec<Change>,
    /// How many handles are open.
    handles: u32,
}

/// A change to a folder that is not durable.
#[derive(Debug, Clone)]
enum Naming {
    Made { path: String, file: u64 },
    Taken { path: String },
    Renamed { from: String, to: String, file: u64 },
}

#[derive(Debug)]
struct State {
    files: HashMap<u64, Content>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    namings: Vec<Naming>,
    next_file: u64,
    random: u64,
    operations: u64,
    writes: u64,
    faults: Vec<(u64, Fault)>,
    /// The operation from which on all fail, and how.
    fails_from: Option<(u64, Fault)>,
    syncs: u64,
    /// Operations that only read do not count.
    spares_reads: bool,
    /// Operations wait until they are released.
    is_held: bool,
    /// How often the power has gone.
    life: u64,
    is_down: bool,
    /// What happens at the moment does not count as an operation.
    is_looked_at: bool,
    room: Room,
    written: BTreeMap<String, u64>,
    most_bytes: u64,
    /// The bytes read by whole blocks since the last write, and the most that this ever was.
    read_bytes: u64,
    most_read_bytes: u64,
}

/// The disk. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct CrashDisk {
    state: Arc<Mutex<State>>,
    released: Arc<Condvar>,
    /// Handles of an earlier life are dead.
    life: Option<u64>,
}

impl CrashDisk {
    /// An empty disk. The seed decides what a power cut keeps.
    pub fn new(seed: u64) -> CrashDisk {
        let room = Room { total_bytes: 1 << 40, free_bytes: 1 << 40 };
        let state = State {
            files: HashMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            namings: Vec::new(),
            next_file: 1,
            random: seed,
            operations: 0,
            writes: 0,
            faults: Vec::new(),
            fails_from: None,
            syncs: 0,
            spares_reads: false,
            is_held: false,
            life: 0,
            is_down: false,
            is_looked_at: false,
            room,
            written: BTreeMap::new(),
            most_bytes: 0,
            read_bytes: 0,
            most_read_bytes: 0,
        };
        CrashDisk { state: Arc::new(Mutex::new(state)), released: Arc::default(), life: None }
    }

    /// Lets the `n`-th operation from now on fail (the next one is 0).
    pub fn fail_at(&self, n: u64, fault: Fault) {
        let mut state = self.state.lock();
        let at = state.operations + n;
        state.faults.push((at, fault));
    }

    /// Lets all operations from the `n`-th on fail.
    pub fn fail_from(&self, n: u64, fault: Fault) {
        let mut state = self.state.lock();
        state.fails_from = Some((state.operations + n, fault));
    }

    /// Forgets the faults that are still to come.
    pub fn fail_no_more(&self) {
        let mut state = self.state.lock();
        state.faults.clear();
        state.fails_from = None;
    }

    /// The disk as one process has it. Once the power has gone, nothing more is done for that process.
    #[must_use]
    pub fn process(&self) -> CrashDisk {
        CrashDisk { life: Some(self.state.lock().life), ..self.clone() }
    }

    /// Cuts the power now and brings it back. The seed decides what is kept.
    pub fn cut(&self, seed: u64) {
        let mut state = self.state.lock();
        state.random = seed;
        state.restart();
        drop(state);
        self.released.notify_all();
    }

    /// Lets operations wait until [`CrashDisk::let_go`].
    pub fn hold(&self) {
        self.state.lock().is_held = true;
    }

    /// Releases the operations that wait.
    pub fn let_go(&self) {
        self.state.lock().is_held = false;
        self.released.notify_all();
    }

    /// How many syncs of files were made.
    pub fn syncs(&self) -> u64 {
        self.state.lock().syncs
    }

    /// Replaces or removes a file, durably, behind the back of its open handles.
    pub fn put(&self, path: &str, bytes: Option<&[u8]>) {
        let mut state = self.state.lock();
        state.names.remove(path);
        state.durable_names.remove(path);
        state.namings.retain(|naming| !naming.is_of(path));
        if let Some(bytes) = bytes {
            let file = state.next_file;
            state.next_file += 1;
            let content = Content { durable: bytes.to_vec(), seen: bytes.to_vec(), ..Content::default() };
            state.files.insert(file, content);
            state.names.insert(path.to_owned(), file);
            state.durable_names.insert(path.to_owned(), file);
        }
    }

    /// The state for an operation: waits while the disk is held, and fails if the caller's power has gone.
    fn lock(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state.lock();
        while state.is_held {
            self.released.wait(&mut state);
        }
        match self.life {
            Some(life) if life != state.life => Err(io::Error::other("this process has lost its power")),
            _ => Ok(state),
        }
    }

    /// From now on operations that only read do not count and do not fail.
    pub fn spare_reads(&self) {
        self.state.lock().spares_reads = true;
    }

    /// How many operations were made.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Runs `act` without counting or failing an operation. For reading only.
    pub fn look<T>(&self, act: impl FnOnce() -> T) -> T {
        self.state.lock().is_looked_at = true;
        let seen = act();
        self.state.lock().is_looked_at = false;
        seen
    }

    /// How many writes were made.
    pub fn writes(&self) -> u64 {
        self.state.lock().writes
    }

    /// Whether the power has gone.
    pub fn is_down(&self) -> bool {
        self.state.lock().is_down
    }

    /// Bytes written to files whose path begins with `prefix`.
    pub fn written_bytes(&self, prefix: &str) -> u64 {
        let state = self.state.lock();
        state.written.iter().filter(|(path, _)| path.starts_with(prefix)).map(|(_, bytes)| bytes).sum()
    }

    /// The length of all files, including those without a name that are still open.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }

    /// The most that [`CrashDisk::used_bytes`] ever was.
    pub fn most_bytes(&self) -> u64 {
        self.state.lock().most_bytes
    }

    /// Forgets the most bytes so far.
    pub fn forget_most_bytes(&self) {
        self.state.lock().most_bytes = 0;
    }

    /// The most bytes that were read by whole blocks between two writes: a copier that writes what it reads
    /// holds no more.
    pub fn most_read_bytes(&self) -> u64 {
        self.state.lock().most_read_bytes
    }

    /// Sets the answer of [`Disk::room`].
    pub fn set_room(&self, room: Room) {
        self.state.lock().room = room;
    }

    /// Cuts the power and brings it back. Of what was not durable a part is kept. Files that were open are of
    /// no use any more.
    pub fn restart(&self) {
        self.state.lock().restart();
    }

    /// Ends the process and begins another, after a [`Fault::PowerCut`] or not. The page cache has all that
    /// was written.
    pub fn revive(&self) {
        let mut state = self.state.lock();
        state.is_down = false;
        state.faults.clear();
    }

    /// Changes bytes beneath the file system: flips all bits of `count` bytes.
    pub fn flip(&self, path: &str, offset: u64, count: usize) {
        let mut state = self.state.lock();
        let Some(file) = state.names.get(path).copied() else { return };
        let Some(content) = state.files.get_mut(&file) else { return };
        for bytes in [&mut content.seen, &mut content.durable] {
            let length = bytes.len();
            let range = (offset as usize).min(length)..(offset as usize + count).min(length);
            bytes[range].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// The content of a file.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let file = state.names.get(path)?;
        Some(state.files.get(file)?.seen.clone())
    }

    /// The paths of all files.
    pub fn paths(&self) -> Vec<String> {
        self.state.lock().names.keys().cloned().collect()
    }

    fn file(&self, path: &str, file: u64) -> Arc<dyn DiskFile> {
        if let Some(content) = self.state.lock().files.get_mut(&file) {
            content.handles += 1;
        }
        Arc::new(CrashFile(Arc::new(Handle { disk: self.clone(), file, path: path.to_owned() })))
    }
}

impl Naming {
    fn is_of(&self, path: &str) -> bool {
        match self {
            Naming::Made { path: own, .. } | Naming::Taken { path: own } => own == path,
            Naming::Renamed { from, to, .. } => from == path || to == path,
        }
    }
}

impl State {
    fn random(&mut self) -> u64 {
        // splitmix64 (Steele, Lea, Flood, OOPSLA '14).
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, count: u64) -> u64 {
        self.random() % count.max(1)
    }

    /// Counts an operation and decides what happens at it.
    fn begin(&mut self) -> io::Result<()> {
        if self.is_looked_at && !self.is_down {
            return Ok(());
        }
        let number = self.operations;
        self.operations += 1;
        if self.is_down {
            return Err(io::Error::other("the power is gone"));
        }
        let once = self.faults.iter().position(|(n, _)| *n == number);
        let ever = self.fails_from.filter(|(from, _)| number >= *from).map(|(_, fault)| fault);
        let Some(fault) = once.map(|at| self.faults.swap_remove(at).1).or(ever) else { return Ok(()) };
        match fault {
            Fault::Io => Err(io::Error::other("the device fails")),
            Fault::Full => Err(io::ErrorKind::StorageFull.into()),
            Fault::PowerCut => {
                self.is_down = true;
                Err(io::Error::other("the power goes"))
            }
        }
    }

    /// As [`State::begin`], for operations that only read.
    fn begin_read(&mut self) -> io::Result<()> {
        match self.spares_reads && !self.is_down {
            true => Ok(()),
            false => self.begin(),
        }
    }

    fn used_bytes(&self) -> u64 {
        let is_there = |file: &u64, content: &Content| {
            content.handles > 0 || self.names.values().any(|named| named == file)
        };
        let there = self.files.iter().filter(|(file, content)| is_there(file, content));
        there.map(|(_, content)| content.seen.len() as u64).sum()
    }

    fn lookup(&self, path: &str) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn restart(&mut self) {
        (self.is_down, self.is_held, self.fails_from) = (false, false, None);
        self.life += 1;
        self.faults.clear();
        let namings = std::mem::take(&mut self.namings);
        // A journalling file system keeps the order of names. We also try others.
        let in_order = self.below(3) > 0;
        let kept = self.below(namings.len() as u64 + 1) as usize;
        for (at, naming) in namings.into_iter().enumerate() {
            let keep = if in_order { at < kept } else { self.below(2) == 0 };
            if keep {
                apply_naming(&mut self.durable_names, naming);
            }
        }
        self.names = self.durable_names.clone();
        let mut files: Vec<u64> = self.files.keys().copied().collect();
        files.sort_unstable();
        let named: Vec<u64> = self.names.values().copied().collect();
        for file in files {
            let Some(mut content) = self.files.remove(&file) else { continue };
            if named.contains(&file) {
                for change in std::mem::take(&mut content.pending) {
                    self.keep_some(&mut content.durable, change);
                }
                content.seen = content.durable.clone();
                content.handles = 0;
                self.files.insert(file, content);
            }
        }
    }

    /// Applies a change that was not durable: all, nothing or a part of it.
    fn keep_some(&mut self, durable: &mut Vec<u8>, change: Change) {
        let choice = self.below(4);
        match change {
            _ if choice == 0 => {}
            Change::Write { offset, bytes } if choice == 1 => {
                for (at, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                    if self.below(2) == 0 {
                        write(durable, offset + (at * SECTOR_BYTES) as u64, sector);
                    }
                }
            }
            Change::Write { offset, bytes } if choice == 2 => {
                let count = self.below(bytes.len() as u64 + 1) as usize;
                write(durable, offset, &bytes[..count]);
            }
            change => apply(durable, &change),
        }
    }
}

fn apply_naming(names: &mut BTreeMap<String, u64>, naming: Naming) {
    match naming {
        Naming::Made { path, file } => {
            names.insert(path, file);
        }
        Naming::Taken { path } => {
            names.remove(&path);
        }
        Naming::Renamed { from, to, file } => {
            names.remove(&from);
            names.insert(to, file);
        }
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes: written } => write(bytes, *offset, written),
        Change::Truncate(length) => bytes.resize(*length as usize, 0),
    }
}

fn write(bytes: &mut Vec<u8>, offset: u64, written: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + written.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(written);
}

impl Disk for CrashDisk {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock()?;
        state.begin()?;
        let file = state.next_file;
        state.next_file += 1;
        state.files.insert(file, Content::default());
        state.names.insert(path.to_owned(), file);
        state.namings.push(Naming::Made { path: path.to_owned(), file });
        drop(state);
        Ok(self.file(path, file))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock()?;
        state.begin_read()?;
        let file = state.lookup(path)?;
        drop(state);
        Ok(self.file(path, file))
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        let mut state = self.lock()?;
        state.begin()?;
        state.lookup(path)?;
        state.names.remove(path);
        state.namings.push(Naming::Taken { path: path.to_owned() });
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock()?;
        state.begin()?;
        let file = state.lookup(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), file);
        state.namings.push(Naming::Renamed { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    fn make_folder(&self, _folder: &str) -> io::Result<()> {
        self.lock()?.begin()
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut state = self.lock()?;
        state.begin_read()?;
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let names = state.names.keys().filter_map(|path| path.strip_prefix(&prefix));
        Ok(names.filter(|name| !name.contains('/')).map(ToOwned::to_owned).collect())
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let mut state = self.lock()?;
        state.begin()?;
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let is_in = |path: &str| path.strip_prefix(&prefix).is_some_and(|name| !name.contains('/'));
        for naming in std::mem::take(&mut state.namings) {
            let (Naming::Made { path, .. } | Naming::Taken { path } | Naming::Renamed { to: path, .. }) =
                &naming;
            if is_in(path) {
                apply_naming(&mut state.durable_names, naming);
            } else {
                state.namings.push(naming);
            }
        }
        Ok(())
    }

    fn identity(&self, path: &str) -> io::Result<Option<Identity>> {
        let mut state = self.lock()?;
        state.begin_read()?;
        Ok(state.names.get(path).map(|file| (0, *file)))
    }

    fn room(&self) -> io::Result<Room> {
        let mut state = self.lock()?;
        state.begin()?;
        Ok(state.room)
    }
}

#[derive(Debug, Clone)]
struct CrashFile(Arc<Handle>);

/// An open file. Its bytes stay as long as a handle is open, with a name or without.
#[derive(Debug)]
struct Handle {
    disk: CrashDisk,
    file: u64,
    path: String,
}

impl CrashFile {
    fn read<T>(&self, act: impl FnOnce(&mut State, &mut Content) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.0.disk.lock()?;
        state.begin_read()?;
        self.act(state, act)
    }

    fn with<T>(&self, act: impl FnOnce(&mut State, &mut Content) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.0.disk.lock()?;
        state.begin()?;
        self.act(state, act)
    }

    fn act<T>(
        &self,
        mut state: MutexGuard<'_, State>,
        act: impl FnOnce(&mut State, &mut Content) -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(mut content) = state.files.remove(&self.0.file) else {
            return Err(io::Error::other("opened before the power went"));
        };
        let result = act(&mut state, &mut content);
        state.files.insert(self.0.file, content);
        state.most_bytes = state.most_bytes.max(state.used_bytes());
        result
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(content) = self.disk.state.lock().files.get_mut(&self.file) {
            content.handles = content.handles.saturating_sub(1);
        }
    }
}

impl DiskFile for CrashFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read(|state, content| {
            let start = (offset as usize).min(content.seen.len());
            let count = into.len().min(content.seen.len() - start);
            into[..count].copy_from_slice(&content.seen[start..start + count]);
            // Descriptions are shorter reads, and are not kept.
            if into.len() >= BLOCK_BYTES {
                state.read_bytes += count as u64;
            }
            state.most_read_bytes = state.most_read_bytes.max(state.read_bytes);
            Ok(count)
        })
    }

    fn read_resident_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(into, offset)
    }

    fn write_all_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        let bytes = parts.concat();
        self.0.disk.state.lock().read_bytes = 0;
        let path = self.0.path.clone();
        let down_or_full = {
            let mut state = self.0.disk.state.lock();
            state.writes += 1;
            let next = state.operations;
            let ever = state.fails_from.is_some_and(|(from, fault)| next >= from && fault != Fault::Io);
            let once = state.faults.iter().any(|(n, fault)| *n == next && *fault != Fault::Io);
            let is_of_now = self.0.disk.life.is_none_or(|life| life == state.life);
            (once || ever) && !state.is_down && is_of_now
        };
        if down_or_full {
            // A write during a power cut or on a full file system may have been made in part.
            let mut state = self.0.disk.state.lock();
            let count = state.below(bytes.len() as u64 + 1) as usize;
            if let Some(content) = state.files.get_mut(&self.0.file) {
                let change = Change::Write { offset, bytes: bytes[..count].to_vec() };
                apply(&mut content.seen, &change);
                content.pending.push(change);
            }
        }
        self.with(|state, content| {
            *state.written.entry(path).or_default() += bytes.len() as u64;
            let change = Change::Write { offset, bytes };
            apply(&mut content.seen, &change);
            content.pending.push(change);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        let synced = self.with(|state, content| {
            state.syncs += 1;
            for change in std::mem::take(&mut content.pending) {
                apply(&mut content.durable, &change);
            }
            Ok(())
        });
        if synced.is_err() {
            let mut state = self.0.disk.state.lock();
            if !state.is_down
                && let Some(content) = state.files.get_mut(&self.0.file)
            {
                content.pending.clear();
            }
        }
        synced
    }

    fn length(&self) -> io::Result<u64> {
        self.read(|_, content| Ok(content.seen.len() as u64))
    }

    fn identity(&self) -> io::Result<Identity> {
        Ok((0, self.0.file))
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.with(|_, content| {
            let change = Change::Truncate(length);
            apply(&mut content.seen, &change);
            content.pending.push(change);
            Ok(())
        })
    }
}
