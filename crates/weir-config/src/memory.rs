//! How much memory this process may use: the limit of its cgroup, else the machine's. Must not decide anything but the
//! default of `[cache] memory`.

use std::path::Path;

/// The default where nothing is scarce.
const DEFAULT_BYTES: u64 = 256 << 20;

/// The smaller of 256 MiB and a quarter of what may be used.
pub(crate) fn default_bytes() -> u64 {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group_limit = group_limit(&groups, &|path| std::fs::read_to_string(path).ok());
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| machine_bytes(&text));
    default_of(group_limit, machine)
}

fn default_of(group_limit: Option<u64>, machine: Option<u64>) -> u64 {
    let usable = group_limit.into_iter().chain(machine).min();
    usable.map_or(DEFAULT_BYTES, |bytes| DEFAULT_BYTES.min(bytes / 4))
}

/// The least limit of the groups that this process is in, version 2 (`0::/path`) or 1 (`N:memory:/path`).
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
        assert_eq!(default_of(Some(256 << 20), Some(8 << 30)), 64 << 20);
        assert_eq!(default_of(None, Some(8 << 30)), 256 << 20);
        assert_eq!(default_of(None, None), 256 << 20);
    }
}
