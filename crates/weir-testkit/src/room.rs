//! Whether there is room for what scenarios keep on drives.

use std::path::Path;

/// The share of a file system that Weir leaves free, in percent.
const FREE_PERCENT: u64 = 5;
/// The most that it leaves free, in bytes.
const FREE_BYTES_MAX: u64 = 4 << 30;
/// What the volumes and drives take of all scenarios that run side by side, in bytes.
const SCENARIOS_BYTES: u64 = 2_000_000_000;

/// Ends a scenario that could store nothing on its volume, before it waits for that.
///
/// # Panics
/// With a sentence, where less is free than is needed.
pub(crate) fn check(folder: &Path) {
    let Ok(stat) = rustix::fs::statvfs(folder) else { return };
    if let Err(why) = judge(folder, stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize) {
        panic!("{why}");
    }
}

/// As [`check`], of a file system of so many bytes.
fn judge(folder: &Path, free_bytes: u64, all_bytes: u64) -> Result<(), String> {
    let left_bytes = (all_bytes / 100 * FREE_PERCENT).min(FREE_BYTES_MAX);
    let needed_bytes = left_bytes + SCENARIOS_BYTES;
    let gb = |bytes: u64| bytes.div_ceil(1_000_000_000);
    if free_bytes >= needed_bytes {
        return Ok(());
    }
    Err(format!(
        "{} GB free are needed in {}: Weir leaves {} GB of that file system free, and there are {} GB; \
         TMPDIR names another folder",
        gb(needed_bytes),
        folder.display(),
        gb(left_bytes),
        free_bytes / 1_000_000_000
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_said_with_what_is_needed() {
        const GB: u64 = 1_000_000_000;
        let folder = Path::new("/scratch");
        assert_eq!(judge(folder, 4 * GB, 40 * GB), Ok(()));
        assert_eq!(judge(folder, 7 * GB, 1000 * GB), Ok(()));
        let said = judge(folder, 4 * GB - 1, 40 * GB).unwrap_err();
        assert!(said.starts_with("4 GB free are needed in /scratch: "), "{said}");
        assert!(said.contains("leaves 2 GB") && said.contains("there are 3 GB"), "{said}");
    }
}
