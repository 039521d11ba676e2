//! A control group with a limit of memory, in which a Weir runs as in a small container. Dropping it removes
//! it.
//!
//! It needs the right to make groups. Without it the scenario is skipped with a message.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long killed processes may take to leave it.
const LEAVING_PATIENCE: Duration = Duration::from_secs(5);

/// A group of processes with a limit on their common memory, page cache included.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    version: Version,
}

/// The version of the control groups.
#[derive(Clone, Copy, Debug)]
enum Version {
    One,
    Two,
}

impl Version {
    fn root(self) -> &'static str {
        match self {
            Version::One => "/sys/fs/cgroup/memory",
            Version::Two => "/sys/fs/cgroup",
        }
    }

    fn limit(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }

    /// The file that counts the kills.
    fn kills(self) -> &'static str {
        match self {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        }
    }
}

impl MemoryGroup {
    /// A group with a limit of `bytes`. `None`, with a message on the standard error, if none can be made
    /// here.
    pub fn make(bytes: u64) -> Option<MemoryGroup> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let is_two = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let version = if is_two { Version::Two } else { Version::One };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(version.root()).join(format!("weir-it-{}-{number}", std::process::id()));
        if let Err(why) = std::fs::create_dir(&folder) {
            skipped(&why.to_string());
            return None;
        }
        let group = MemoryGroup { folder, version };
        if let Err(why) = group.limit(bytes) {
            skipped(&why.to_string());
            return None;
        }
        Some(group)
    }

    /// Sets the limit, in bytes.
    ///
    /// # Errors
    /// The machine refuses it.
    fn limit(&self, bytes: u64) -> std::io::Result<()> {
        let file = self.folder.join(self.version.limit());
        if !file.exists() {
            return Err(std::io::Error::other("groups have no limit of memory here"));
        }
        std::fs::write(file, bytes.to_string())
    }

    /// The file to which a process writes its pid to enter the group.
    pub(crate) fn procs(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// How many of its processes were killed for lack of memory.
    ///
    /// # Panics
    /// The system does not say.
    pub fn kills(&self) -> u64 {
        let text = std::fs::read_to_string(self.folder.join(self.version.kills())).unwrap();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).unwrap()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let begun = Instant::now();
        while std::fs::remove_dir(&self.folder).is_err() && begun.elapsed() < LEAVING_PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Written past the test harness, which would swallow it.
fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or("a scenario").to_owned();
    let _ = writeln!(std::io::stderr(), "skipped: {name}: no control group can be made here: {why}");
}
