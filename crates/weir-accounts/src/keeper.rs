//! The thread `weir-accounts`. Twice a second it reads the counters, adds what is new to the day's rows and
//! writes these, synced. No request waits for it. What it cannot write stays in memory until it can.
//!
//! What was counted since the last look belongs to the day of that look. The thread looks at midnight.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;
use thiserror::Error;
use weir_disk::{Disk, DiskFile};

use crate::book::{Book, Rows, folded, rows};
use crate::day::{Day, Month, Period};
use crate::flows::Flows;
use crate::form::{self, Id, Sheet, Told};
use crate::unsound::{Unsound, name_aside};

/// Between two looks. With the time of a write it stays well below the second that may be lost.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Between two tries to write where the last one failed.
const RETRY_EVERY: Duration = Duration::from_secs(2);
/// How long a caller waits for a look.
const ASK_PATIENCE: Duration = Duration::from_secs(1);
/// How long leaving the files to another process may take. No request begins meanwhile.
const STEP_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at a file that another process may be writing.
const SETTLED_AFTER: Duration = Duration::from_millis(20);
/// How many months with traffic keep their days; older months keep their sums.
pub const MONTHS_OF_DAYS: usize = 25;
/// A file is written again when what was added to it is more than this, and more than its length when it was
/// made.
const ADDED_BYTES_MIN: u64 = 1 << 20;
/// The account for what belongs to no site.
pub const UNATTRIBUTED: &str = "-";
/// A file while it is written again.
const UNFINISHED: &str = ".new";
/// Follows the month in the names of files of an old process that finishes its requests after an upgrade.
const ASIDE: &str = ".left-";

/// What was counted for an account since the process began.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The account.
    pub name: Arc<str>,
    /// Its numbers. They never fall while the process runs.
    pub flows: Flows,
}

/// The state of the accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountsState {
    /// Why the last write failed; `None` where it succeeded.
    pub failure: Option<String>,
    /// Failed writes.
    pub failed: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Files that could not be read as a whole when they were last read.
    pub unsound: u64,
}

/// An account, as an answer has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountLine {
    /// Its name.
    pub name: Arc<str>,
    /// What it has used over all time.
    pub ever: Flows,
    /// What it has used since the day that was asked for.
    pub total: Flows,
    /// The same by day, and by month where days are no longer kept, in order.
    pub periods: Vec<(Period, Flows)>,
}

/// The accounts, as an answer has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// By name.
    pub lines: Vec<AccountLine>,
    /// All files that cannot be read as a whole. Counts of their months may be smaller than they were.
    pub unsound: Vec<Unsound>,
}

/// The accounts cannot be used.
#[derive(Debug, Error)]
pub enum AccountsError {
    /// A file cannot be read.
    #[error(
        "cannot read the accounts: {file}: {source}; mend the drive of the state folder, or move the file \
         away"
    )]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// A file is of another version.
    #[error("{file} in the folder of the accounts is of another version of Weir; move it away")]
    Foreign {
        /// The file.
        file: String,
    },
    /// The thread cannot be started.
    #[error("cannot start the thread of the accounts: {0}; raise the limit of threads for this user")]
    Thread(#[source] io::Error),
}

/// The accounts of a running Weir.
#[derive(Debug)]
pub struct Accounts {
    book: Arc<Mutex<Book>>,
    disk: Arc<dyn Disk>,
    state: Arc<Mutex<AccountsState>>,
    orders: Sender<Order>,
}

/// What the thread is told.
#[derive(Debug)]
enum Order {
    /// Look now, and reply when done.
    Look(Sender<()>),
    /// Leave the files to another process, and go on in own files.
    StepAside(Sender<Result<(), String>>),
    /// Look once more, and end.
    Finish(Sender<()>),
}

/// Returns what was counted since the process began.
pub type Source = Box<dyn Fn() -> Vec<Counted> + Send>;

impl Accounts {
    /// Reads the existing files and starts the thread. `disk` is the folder of the accounts, made with the
    /// first file; `clock` is the wall clock.
    ///
    /// # Errors
    /// A file cannot be read, or the thread cannot be started. A folder that cannot be written is no error.
    pub fn start(
        disk: Arc<dyn Disk>,
        source: Source,
        clock: fn() -> SystemTime,
    ) -> Result<Accounts, AccountsError> {
        let mut keeper = Keeper::open(disk.clone(), source, clock)?;
        let (book, state) = (keeper.book.clone(), keeper.state.clone());
        let (orders, told) = bounded(16);
        let spawned =
            thread::Builder::new().name("weir-accounts".to_owned()).spawn(move || keeper.run(&told));
        spawned.map_err(AccountsError::Thread)?;
        Ok(Accounts { book, disk, state, orders })
    }

    /// Their state.
    pub fn state(&self) -> AccountsState {
        self.state.lock().clone()
    }

    /// Writes what was counted so far, and ends the thread; waits for it for at most `patience`.
    pub fn finish(&self, patience: Duration) {
        let (done, finished) = bounded(1);
        if self.orders.send(Order::Finish(done)).is_ok() {
            let _ = finished.recv_timeout(patience);
        }
    }

    /// Writes what was counted so far and leaves the files to another process, which may open them when this
    /// returns. What is counted afterwards goes to files of this process's own, which every process reads as
    /// well, so that it is counted once. Blocks.
    ///
    /// # Errors
    /// The counts cannot be written, or their drive does not answer. Then nothing has changed, or own files
    /// are begun later, which changes no count.
    pub fn step_aside(&self) -> Result<(), String> {
        let (done, stepped) = bounded(1);
        let silent = "the accounts cannot be written: the drive of the state folder does not answer";
        self.orders.send_timeout(Order::StepAside(done), STEP_PATIENCE).map_err(|_| silent.to_owned())?;
        stepped.recv_timeout(STEP_PATIENCE).map_err(|_| silent.to_owned())?
    }

    /// What each account has used, from a day on or over all time. Blocks for a short time: it waits for a
    /// look, so that the answer includes everything counted before the call, and reads the files of past
    /// months where `first` lies in one.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn since(&self, first: Option<Day>) -> Result<Report, AccountsError> {
        self.report(first, Detail::Sums)
    }

    /// The same, day by day.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn days(&self, first: Option<Day>) -> Result<Report, AccountsError> {
        self.report(first, Detail::Days)
    }

    fn report(&self, first: Option<Day>, detail: Detail) -> Result<Report, AccountsError> {
        let (done, looked) = bounded(1);
        if self.orders.try_send(Order::Look(done)).is_ok() {
            let _ = looked.recv_timeout(ASK_PATIENCE);
        }
        let (others, mut unsound) = self.others()?;
        let months = self.book.lock().months(first.map(Day::month));
        let mut used: BTreeMap<Id, Used> = BTreeMap::new();
        for month in months {
            let is_cut = first.is_some_and(|first| first.month() == month && first.number() > 1);
            if detail == Detail::Sums && !is_cut {
                let book = self.book.lock();
                book.sums_of(month).for_each(|(id, flows)| used.entry(id).or_default().total.add(flows));
                continue;
            }
            let (rows, fault) = self.rows(month)?;
            unsound.extend(fault);
            for (id, period, flows) in rows {
                used.entry(id).or_default().add(period, &flows, first);
            }
        }
        let book = self.book.lock();
        let (mut ever, mut names) = (book.ever(), BTreeMap::new());
        for (month, sheet) in others {
            for (id, period, flows) in rows(month, &sheet) {
                ever.entry(id).or_default().add(&flows);
                used.entry(id).or_default().add(period, &flows, first);
            }
            names.extend(sheet.names);
        }
        let lines = ever.into_iter().map(|(id, ever)| {
            let Used { total, periods } = used.remove(&id).unwrap_or_default();
            let periods = if detail == Detail::Days { periods.into_iter().collect() } else { Vec::new() };
            AccountLine { name: names.remove(&id).unwrap_or_else(|| book.name(id)), ever, total, periods }
        });
        let mut lines: Vec<_> = lines.collect();
        lines.sort_by(|one, other| one.name.cmp(&other.name));
        unsound.extend(book.unsound().cloned());
        unsound.sort_by(|one, other| one.file.cmp(&other.file));
        unsound.dedup_by(|one, other| one.file == other.file);
        self.state.lock().unsound = unsound.len() as u64;
        Ok(Report { lines, unsound })
    }

    fn rows(&self, month: Month) -> Result<(Rows, Option<Unsound>), AccountsError> {
        let name = {
            let book = self.book.lock();
            if let Some(rows) = book.rows(month) {
                return Ok((rows, None));
            }
            book.file_name(month)
        };
        let told = read(&*self.disk, &name)?;
        Ok(told.map(|told| (rows(month, &told.sheet), Unsound::of(&name, month, &told))).unwrap_or_default())
    }

    /// What other processes have counted, and what is set aside; few and short files.
    fn others(&self) -> Result<Others, AccountsError> {
        others(&*self.disk, |name| self.book.lock().own_month(name).is_some())
    }
}

/// The rows of files that are not this process's own, and which of these files are not whole.
type Others = (Vec<(Month, Sheet)>, Vec<Unsound>);

/// What an account has used, while it is added up.
#[derive(Default)]
struct Used {
    total: Flows,
    periods: BTreeMap<Period, Flows>,
}

impl Used {
    /// Adds a row if it counts from that day on. A month without its days cannot be divided: it counts only
    /// where all of it is asked for.
    fn add(&mut self, period: Period, flows: &Flows, first: Option<Day>) {
        let is_within = first.is_none_or(|first| match period {
            Period::Day(day) => day >= first,
            Period::Month(month) if month == first.month() => first.number() == 1,
            Period::Month(month) => month > first.month(),
        });
        if is_within {
            self.total.add(flows);
            self.periods.entry(period).or_default().add(flows);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Sums,
    Days,
}

/// The file that is open for appending.
#[derive(Debug)]
struct Open {
    month: Month,
    file: Arc<dyn DiskFile>,
    /// Its length when it was made.
    made_bytes: u64,
    added_bytes: u64,
    /// The accounts that it names.
    named: BTreeSet<Id>,
}

/// The thread's side.
struct Keeper {
    disk: Arc<dyn Disk>,
    book: Arc<Mutex<Book>>,
    state: Arc<Mutex<AccountsState>>,
    source: Source,
    clock: fn() -> SystemTime,
    /// The counters at the last look.
    counted: HashMap<Arc<str>, Flows>,
    /// The day of the last look.
    day: Day,
    open: Option<Open>,
}

impl Keeper {
    fn open(disk: Arc<dyn Disk>, source: Source, clock: fn() -> SystemTime) -> Result<Keeper, AccountsError> {
        let (book, state) = (Arc::<Mutex<Book>>::default(), Arc::default());
        let (counted, day) = (HashMap::new(), Day::of(clock()));
        let mut keeper = Keeper { disk, book, state, source, clock, counted, day, open: None };
        for name in names(&*keeper.disk)? {
            let month = keeper.book.lock().own_month(&name);
            let Some(month) = month else { continue };
            let Some(told) = read(&*keeper.disk, &name)? else { continue };
            match Unsound::of(&name, month, &told).map(|unsound| (keeper.set_aside(&unsound), unsound)) {
                None => keeper.book.lock().sum(month, &told.sheet),
                // Reported below, with all others.
                Some((Ok(_), _)) => {}
                Some((Err(error), unsound)) => {
                    tracing::error!(%error, "accounts: {unsound}; the file cannot be set aside, and Weir \
                                             writes nothing in its place");
                    keeper.book.lock().sum_unsound(unsound, &told.sheet);
                }
            }
        }
        let (_, unsound) = others(&*keeper.disk, |name| keeper.book.lock().own_month(name).is_some())?;
        for unsound in &unsound {
            tracing::error!("accounts: {unsound}");
        }
        keeper.state.lock().unsound = (unsound.len() + keeper.book.lock().unsound().count()) as u64;
        keeper.fold();
        Ok(keeper)
    }

    /// The rows of a month's own file. A file that is not whole is set aside and has none any more.
    fn read(&mut self, month: Month) -> io::Result<Option<Sheet>> {
        let name = self.book.lock().file_name(month);
        let Some(told) = read(&*self.disk, &name).map_err(io::Error::other)? else { return Ok(None) };
        let Some(unsound) = Unsound::of(&name, month, &told) else { return Ok(Some(told.sheet)) };
        let set_aside = self.set_aside(&unsound)?;
        tracing::error!(set_aside, "accounts: {unsound}");
        self.state.lock().unsound += 1;
        Ok(None)
    }

    /// Sets a month's file aside under another name. It stays as it is there, and its sound frames count:
    /// nothing of it is lost by later writes, and it is counted once, whenever this process ends.
    fn set_aside(&mut self, unsound: &Unsound) -> io::Result<String> {
        let name = name_aside(&unsound.file, (self.clock)(), &list(&*self.disk)?);
        // It may be the open file.
        self.open = None;
        self.disk.rename(&unsound.file, &name)?;
        self.disk.sync_folder("")?;
        self.book.lock().forget(unsound.month);
        Ok(name)
    }

    /// Runs until it is told to finish, or until nobody can tell it any more.
    fn run(&mut self, orders: &Receiver<Order>) {
        loop {
            let order = orders.recv_timeout(self.pause());
            self.look();
            match order {
                Err(RecvTimeoutError::Timeout) => {}
                // A caller that no longer waits need not know.
                Ok(Order::Look(done)) => {
                    let _ = done.send(());
                }
                Ok(Order::StepAside(done)) => {
                    let _ = done.send(self.step_aside());
                }
                Ok(Order::Finish(done)) => {
                    let _ = done.send(());
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Goes on in files of its own, after a look.
    fn step_aside(&mut self) -> Result<(), String> {
        if let Some(failure) = &self.state.lock().failure {
            return Err(format!("the accounts cannot be written: {failure}"));
        }
        let mut book = self.book.lock();
        if !book.is_aside() {
            let since = (self.clock)().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
            *book = Book::of(format!("{ASIDE}{}-{since}", std::process::id()));
            self.open = None;
        }
        Ok(())
    }

    /// The time until the next look, which is not after midnight.
    fn pause(&self) -> Duration {
        let every = if self.state.lock().failure.is_some() { RETRY_EVERY } else { LOOK_EVERY };
        let wall = (self.clock)();
        Day::of(wall).left(wall).map_or(every, |left| left.min(every))
    }

    /// Adds what is new, and writes pending rows.
    fn look(&mut self) {
        let month = self.day.month();
        let written = self.add().and_then(|()| self.write());
        self.tell(written);
        if self.day.month() != month {
            self.book.lock().close(self.day.month());
            self.fold();
        }
    }

    fn add(&mut self) -> io::Result<()> {
        let day = self.day;
        if !self.book.lock().is_open(day.month()) {
            let sheet = self.read(day.month())?;
            self.book.lock().open(day.month(), sheet.unwrap_or_default());
        }
        // What is counted from here on belongs to the current day, except what comes while this reads.
        self.day = Day::of((self.clock)());
        let mut book = self.book.lock();
        for Counted { name, flows } in (self.source)() {
            let before = self.counted.entry(name.clone()).or_default();
            let new = flows.since(before);
            if !new.is_nothing() {
                book.add(day, &name, &new);
                *before = flows;
            }
        }
        Ok(())
    }

    /// Writes all pending rows, one month at a time.
    fn write(&mut self) -> io::Result<()> {
        loop {
            let book = self.book.lock();
            let Some(month) = book.unwritten() else { return Ok(()) };
            let open = self.open.take().filter(|open| open.month == month && !open.is_overgrown());
            let bytes = match &open {
                Some(open) => book.addition(month, &open.named),
                None => book.file(month),
            };
            let (named, name) = (book.ids(month), book.file_name(month));
            drop(book);
            let length = bytes.len() as u64;
            let open = match open {
                Some(open) => {
                    open.file.write_all_at(&[&bytes], open.made_bytes + open.added_bytes)?;
                    open.file.sync_data()?;
                    Open { added_bytes: open.added_bytes + length, named, ..open }
                }
                None => {
                    let file = replace(&*self.disk, &name, &bytes)?;
                    Open { month, file, made_bytes: length, added_bytes: 0, named }
                }
            };
            // A file is not appended to after a failed write: nobody knows what it holds.
            self.open = Some(open);
            self.book.lock().written(month);
            self.state.lock().written_bytes += length;
        }
    }

    /// Logs once that accounts cannot be written, and once that they can again.
    fn tell(&self, written: io::Result<()>) {
        let mut state = self.state.lock();
        match (written, &state.failure) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => {
                state.failure = None;
                tracing::info!("the accounts are on disk again");
            }
            (Err(error), before) => {
                if before.is_none() {
                    tracing::error!(%error, "cannot write the accounts; Weir counts in memory until it can: \
                                             mend the drive of the state folder");
                }
                state.failure = Some(error.to_string());
                state.failed += 1;
            }
        }
    }

    /// Keeps only the sums of months that are too old.
    fn fold(&mut self) {
        let months = self.book.lock().to_fold(MONTHS_OF_DAYS);
        for month in months {
            let name = self.book.lock().file_name(month);
            let sheet = self.read(month);
            // The open file is another one from here on.
            self.open = None;
            let fold = |sheet: Option<Sheet>| match sheet {
                Some(sheet) => replace(&*self.disk, &name, &folded(&sheet).file()).map(drop),
                None => Ok(()),
            };
            match sheet.and_then(fold) {
                Ok(()) => self.book.lock().folded(month),
                Err(error) => {
                    tracing::warn!(%error, %month, "cannot fold an old month; its days are kept for now")
                }
            }
        }
    }
}

impl Open {
    fn is_overgrown(&self) -> bool {
        self.added_bytes > ADDED_BYTES_MIN.max(self.made_bytes)
    }
}

/// Replaces a month's file as a whole; it stays open.
fn replace(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<Arc<dyn DiskFile>> {
    disk.make_folder("")?;
    disk.replace(name, bytes)
}

/// The names of all files; none without the folder.
fn list(disk: &dyn Disk) -> io::Result<Vec<String>> {
    match disk.list("") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    }
}

/// The rows of all months' files that are not this process's own, and which of these files are not whole.
/// Another process may be writing at the end of one: a file that is not whole there is read again a moment
/// later.
fn others(disk: &dyn Disk, is_own: impl Fn(&str) -> bool) -> Result<Others, AccountsError> {
    let (mut sheets, mut all) = (Vec::new(), Vec::new());
    for name in names(disk)? {
        let month = name.split('.').next().and_then(|month| month.parse::<Month>().ok());
        let Some(month) = month.filter(|_| !is_own(&name) && !name.contains(UNFINISHED)) else { continue };
        let Some(mut told) = read(disk, &name)? else { continue };
        if told.torn_bytes > 0 && name.contains(ASIDE) {
            thread::sleep(SETTLED_AFTER);
            told = read(disk, &name)?.unwrap_or(told);
        }
        all.extend(Unsound::of(&name, month, &told));
        sheets.push((month, told.sheet));
    }
    Ok((sheets, all))
}

fn names(disk: &dyn Disk) -> Result<Vec<String>, AccountsError> {
    list(disk).map_err(|source| AccountsError::Read { file: "the folder".to_owned(), source })
}

fn read(disk: &dyn Disk, name: &str) -> Result<Option<Told>, AccountsError> {
    let bytes =
        disk.read(name, u64::MAX).map_err(|source| AccountsError::Read { file: name.to_owned(), source })?;
    let foreign = |_| AccountsError::Foreign { file: name.to_owned() };
    bytes.map(|bytes| form::read(&bytes).map_err(foreign)).transpose()
}

#[cfg(test)]
mod tests;
