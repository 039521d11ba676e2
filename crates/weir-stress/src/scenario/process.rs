//! What a process and its descendants have used, by the kernel's files in `/proc`.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The most processes that are added up.
const PROCESSES_MAX: usize = 4096;
/// Linux shows CPU times in hundredths of a second on all its machines (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

/// What was used so far, and what is held now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
    /// Resident memory that no file has.
    pub(crate) anonymous_bytes: u64,
    /// Bytes that were read from, and given to, drives. Zero where the kernel does not tell us.
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Reads of the drive that the server's folder is on, by all processes.
    pub(crate) drive_reads: u64,
}

impl Usage {
    /// Of the process and all its descendants. `None` once it is gone.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let mut sum = Self::of_one(pid)?;
        for child in descendants(pid) {
            if let Some(one) = Self::of_one(child) {
                sum.cpu_seconds += one.cpu_seconds;
                sum.resident_bytes += one.resident_bytes;
                sum.anonymous_bytes += one.anonymous_bytes;
                sum.read_bytes += one.read_bytes;
                sum.written_bytes += one.written_bytes;
            }
        }
        Some(sum)
    }

    fn of_one(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = after_name(&stat)?.split_ascii_whitespace().collect();
        // The 14th and 15th field: of this process, its ended threads included; not of ended children.
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        Some(Self {
            cpu_seconds: (ticks(11) + ticks(12)) / TICKS_PER_S,
            resident_bytes: number(&status, "VmRSS:") * 1024,
            anonymous_bytes: number(&status, "RssAnon:") * 1024,
            read_bytes: number(&io, "read_bytes:"),
            written_bytes: number(&io, "write_bytes:"),
            drive_reads: 0,
        })
    }

    /// What was used since `before`; what is held is that of now.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            cpu_seconds: (self.cpu_seconds - before.cpu_seconds).max(0.0),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            drive_reads: self.drive_reads.saturating_sub(before.drive_reads),
            ..*self
        }
    }
}

/// The reads so far of the drive that a folder is on. Zero where the kernel does not tell: some file systems
/// have no drive of their own.
pub(crate) fn drive_reads(folder: &Path) -> u64 {
    let read = || {
        let device = std::fs::metadata(folder).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
        stat.split_ascii_whitespace().next()?.parse().ok()
    };
    read().unwrap_or(0)
}

/// What stands behind the name of the process, which may have any character.
fn after_name(stat: &str) -> Option<&str> {
    stat.rsplit_once(") ").map(|(_, rest)| rest)
}

fn number(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// All processes below `pid`.
fn descendants(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in all {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let parent = after_name(&stat).and_then(|rest| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(child);
        }
    }
    let (mut found, mut next) = (Vec::new(), vec![pid]);
    while let Some(one) = next.pop() {
        for child in children.remove(&one).unwrap_or_default() {
            if found.len() < PROCESSES_MAX {
                found.push(child);
                next.push(child);
            }
        }
    }
    found
}
