//! How much memory this process may use (the limit of its cgroup, else the machine's), how much of that is
//! fixed, and the default of `[cache] memory` from the rest. Must not decide anything else: a configured
//! value is used as it is.

use std::path::Path;

use crate::model::Volume;
use crate::value::Size;

/// The default on a large machine.
const DEFAULT_BYTES: u64 = 256 << 20;
/// The smallest default, however little memory there is.
const LEAST_BYTES: u64 = 8 << 20;
/// What the process needs beside `[cache] memory`: its threads, connections, and what the allocator keeps.
const PROCESS_BYTES: u64 = 32 << 20;
/// The part of a large memory that the allocator keeps in pieces that do not fit.
const PIECES_SHARE: u64 = 8;
/// What each volume needs: its threads, what they read and write at the moment, its empty index.
const VOLUME_BYTES: u64 = 4 << 20;
/// And this part of its size, for counts of how often its objects are used, up to a limit.
const COUNTS_SHARE: u64 = 2 << 10;
const COUNTS_BYTES_MAX: u64 = 16 << 20;
/// The largest size of a volume without a `size`.
const VOLUME_SIZE_BYTES: u64 = 10 << 30;
/// The part of the free memory that the default takes: the rest is for indexes, sockets, and the page cache.
const SHARE: u64 = 4;

/// The smaller of 256 MiB and a quarter of what may be used after the fixed part.
pub(crate) fn default_bytes(volumes: &[Volume]) -> u64 {
    default_of(usable_bytes(), fixed_bytes(volumes))
}

fn default_of(usable: Option<u64>, fixed: u64) -> u64 {
    let share = |bytes: u64| (bytes.saturating_sub(fixed) / SHARE).clamp(LEAST_BYTES, DEFAULT_BYTES);
    usable.map_or(DEFAULT_BYTES, share)
}

/// What this process may use beside `memory` and the fixed part, if known.
pub(crate) fn left_bytes(memory: u64, volumes: &[Volume]) -> Option<u64> {
    Some(usable_bytes()?.saturating_sub(memory).saturating_sub(fixed_bytes(volumes)))
}

/// A warning where the process may need more than it may use.
pub(crate) fn warning(memory: u64, volumes: &[Volume]) -> Option<String> {
    warning_of(memory, volumes, usable_bytes()?)
}

fn warning_of(memory: u64, volumes: &[Volume], usable: u64) -> Option<String> {
    let pieces = (memory / PIECES_SHARE).saturating_sub(PROCESS_BYTES);
    let needed = memory.saturating_add(fixed_bytes(volumes)).saturating_add(pieces);
    let what = match volumes.len() {
        0 => "what the process needs",
        1 => "what the process and its volume need",
        _ => "what the process and its volumes need",
    };
    let in_mib = |bytes: u64| Size(bytes.next_multiple_of(1 << 20));
    (needed > usable).then(|| {
        format!(
            "`[cache] memory` ({}) and {what} add up to {}, but the process may use {}: it may be killed",
            Size(memory),
            in_mib(needed),
            Size(usable - usable % (1 << 20))
        )
    })
}

/// What is needed beside `[cache] memory`, however little is held.
fn fixed_bytes(volumes: &[Volume]) -> u64 {
    let of = |volume: &Volume| {
        let size = volume.size.map_or(VOLUME_SIZE_BYTES, |size| size.0);
        VOLUME_BYTES + (size / COUNTS_SHARE).min(COUNTS_BYTES_MAX)
    };
    PROCESS_BYTES + volumes.iter().map(of).sum::<u64>()
}

/// What this process may use, if known.
fn usable_bytes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group_limit = group_limit(&groups, &|path| std::fs::read_to_string(path).ok());
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| machine_bytes(&text));
    group_limit.into_iter().chain(machine).min()
}

/// The smallest limit of the groups that this process is in, version 2 (`0::/path`) or 1 (`N:memory:/path`).
fn group_limit(groups: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        for ancestor in Path::new(group).ancestors() {
            let folder = Path::new(root).join(ancestor.strip_prefix("/").unwrap_or(ancestor));
            limits.extend(read(&folder.join(file)).and_then(|text| text.trim().parse::<u64>().ok()));
        }
    }
    limits.into_iter().min()
}

/// `MemTotal` of `/proc/meminfo`.
fn machine_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_all_limits_counts() {
        let read = |path: &Path| match path.to_str()? {
            "/sys/fs/cgroup/a/b/memory.max" => Some("max\n".to_owned()),
            "/sys/fs/cgroup/a/memory.max" => Some("268435456\n".to_owned()),
            "/sys/fs/cgroup/memory/c/memory.limit_in_bytes" => Some("9223372036854771712\n".to_owned()),
            _ => None,
        };
        assert_eq!(group_limit("0::/a/b\n", &read), Some(256 << 20));
        assert_eq!(group_limit("4:cpu:/x\n9:memory:/c\n", &read), Some(9_223_372_036_854_771_712));
        assert_eq!(group_limit("0::/\n", &read), None);
        assert_eq!(machine_bytes("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
    }

    fn volumes(count: usize, size: Option<u64>) -> Vec<Volume> {
        let text = r#"{ "path": "/v", "read_timeout": "2s" }"#;
        let mut volume: Volume = serde_json::from_str(text).unwrap();
        volume.size = size.map(Size);
        vec![volume; count]
    }

    #[test]
    fn the_default_is_a_share_of_what_is_not_fixed() {
        let check = |usable_mib: u64, count, size, expect_mib: u64| {
            let bytes = default_of(Some(usable_mib << 20), fixed_bytes(&volumes(count, size)));
            assert_eq!(bytes, expect_mib << 20, "{usable_mib} MiB, {count} volumes");
        };
        check(8 << 10, 0, None, 256);
        check(512, 0, None, 120);
        check(64, 0, None, 8);
        check(16, 0, None, 8);
        check(64, 4, Some(2 << 20), 8);
        check(128, 4, Some(0), 20);
        check(256, 12, Some(0), 44);
        // A volume of ten terabytes takes 20 MiB, and so does one whose size is not said 9.
        check(512, 1, Some(10 << 40), 115);
        check(512, 4, None, 111);
        assert_eq!(default_of(None, fixed_bytes(&[])), 256 << 20);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let said = |memory: u64, count, usable: u64| {
            warning_of(memory << 20, &volumes(count, Some(1 << 20)), usable << 20)
        };
        assert_eq!(said(64, 12, 400), None);
        assert_eq!(said(32, 0, 64), None);
        assert_eq!(said(1 << 10, 0, 1200), None);
        assert_eq!(
            said(64, 12, 128).as_deref(),
            Some(
                "`[cache] memory` (64MiB) and what the process and its volumes need add up to \
                 145MiB, but the process may use 128MiB: it may be killed"
            )
        );
        assert!(said(33, 0, 64).unwrap().contains("what the process needs add up to 65MiB"));
        assert!(said(1 << 10, 0, 1100).is_some(), "an eighth of a large one is kept in pieces");
        // The default is made to fit, where anything does.
        for usable in [64, 100, 128, 256, 400, 1024, 8192] {
            for count in 0..=4 {
                let bytes = default_of(Some(usable << 20), fixed_bytes(&volumes(count, Some(64 << 20))));
                assert_eq!(said(bytes >> 20, count, usable), None, "{usable} MiB, {count} volumes");
            }
        }
    }
}
