//! Real file systems in a file, for what only a drive can do: lose power, run full, turn read-only, flip
//! bits, answer no read.
//!
//! The system's own tools make them, which need the right to mount. Without it the scenario is skipped with a
//! message; no scenario has to ask first.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long to try to unmount a busy file system.
const UNMOUNT_PATIENCE: Duration = Duration::from_secs(10);

/// The call that cuts the power; nothing safe in Rust makes it. `FS_IOC_SHUTDOWN` without a flush of the log:
/// all that was not synced is lost, and every later operation fails.
const SHUTDOWN: &str = "open(my $f, '<', $ARGV[0]) or die $!; my $how = pack('L', 2); \
                        ioctl($f, 0x8004587d, $how) or die $!;";

/// A file system of its own. Dropping it unmounts and removes it.
pub struct Drive {
    folder: PathBuf,
    kind: Kind,
    is_mounted: bool,
}

/// The kind of file system.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// ext4 on a loop device over the file `image`.
    Ext4,
    /// In memory, with this many bytes.
    Tmpfs(u64),
}

/// A group of processes whose reads are slow until this is dropped.
pub struct Throttle {
    group: PathBuf,
}

/// A file system on which every write waits until this is dropped.
pub struct Frozen {
    path: PathBuf,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = run("fsfreeze", ["-u"].map(OsStr::new), &[&self.path]);
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let members = std::fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines() {
            let _ = std::fs::write("/sys/fs/cgroup/blkio/cgroup.procs", pid);
        }
        let _ = std::fs::remove_dir(&self.group);
    }
}

impl Drive {
    /// ext4 of `bytes` on a loop device. `None`, with a message on the standard error, if it cannot be made
    /// here.
    pub fn ext4(bytes: u64) -> Option<Drive> {
        Drive::make(Kind::Ext4, |drive| {
            let image = File::create(drive.image()).map_err(|error| error.to_string())?;
            image.set_len(bytes).map_err(|error| error.to_string())?;
            run("mkfs.ext4", ["-q", "-F", "-E", "nodiscard"].map(OsStr::new), &[&drive.image()])
        })
    }

    /// A file system in memory of `bytes`. `None`, with a message on the standard error, if it cannot be made
    /// here.
    pub fn tmpfs(bytes: u64) -> Option<Drive> {
        Drive::make(Kind::Tmpfs(bytes), |_| Ok(()))
    }

    fn make(kind: Kind, prepare: impl FnOnce(&Drive) -> Result<(), String>) -> Option<Drive> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-drive-{}-{number}", std::process::id()));
        std::fs::create_dir_all(folder.join("mount")).unwrap();
        let mut drive = Drive { folder, kind, is_mounted: false };
        match prepare(&drive).and_then(|()| drive.try_mount()) {
            Ok(()) => Some(drive),
            Err(why) => {
                // Written past the test harness, which would swallow it.
                let name = std::thread::current().name().unwrap_or("a scenario").to_owned();
                let _ =
                    writeln!(std::io::stderr(), "skipped: {name}: no file system can be made here: {why}");
                None
            }
        }
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.folder.join("mount")
    }

    /// The file that the loop device reads and writes.
    fn image(&self) -> PathBuf {
        self.folder.join("image")
    }

    fn try_mount(&mut self) -> Result<(), String> {
        let mount = self.path();
        match self.kind {
            Kind::Ext4 => {
                run(
                    "mount",
                    ["-t", "ext4", "-o", "loop,errors=remount-ro"].map(OsStr::new),
                    &[&self.image(), &mount],
                )?;
            }
            Kind::Tmpfs(bytes) => {
                let options = format!("size={bytes}");
                let args = ["-t", "tmpfs", "-o", &options, "weir-drive"];
                run("mount", args.map(OsStr::new), &[&mount])?;
            }
        }
        self.is_mounted = true;
        Ok(())
    }

    /// Mounts it again and replays its journal.
    ///
    /// # Panics
    /// That fails.
    pub fn mount(&mut self) {
        self.try_mount().unwrap_or_else(|why| panic!("mounting a drive: {why}"));
    }

    /// Unmounts it. Nothing may use it any more, and nothing of it stays in the page cache.
    ///
    /// # Panics
    /// It stays busy.
    pub fn unmount(&mut self) {
        let begun = Instant::now();
        // A process that is being started holds its parent's open files for a moment.
        while let Err(why) = run("umount", [], &[&self.path()]) {
            assert!(begun.elapsed() < UNMOUNT_PATIENCE, "unmounting a drive: {why}");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.is_mounted = false;
    }

    /// Removes it while it is in use: its folder is empty from now on. A process with open files still has
    /// them until it closes them.
    ///
    /// # Panics
    /// The system refuses.
    pub fn pull(&mut self) {
        run("umount", ["-l"].map(OsStr::new), &[&self.path()])
            .unwrap_or_else(|why| panic!("pulling a drive: {why}"));
        self.is_mounted = false;
    }

    /// Limits a process to `per_second` reads a second from it, past the page cache. `None`, with a message
    /// on the standard error, if the system has no such group for processes. Ends when the result is dropped.
    ///
    /// # Panics
    /// It is not mounted on a device.
    pub fn throttle_reads(&self, pid: u32, per_second: u32) -> Option<Throttle> {
        use std::os::unix::fs::MetadataExt;
        let device = std::fs::metadata(self.path()).unwrap().dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let group = PathBuf::from(format!("/sys/fs/cgroup/blkio/weir-{}-{pid}", std::process::id()));
        let enter = || {
            std::fs::create_dir(&group)?;
            let limit = format!("{major}:{minor} {per_second}");
            std::fs::write(group.join("blkio.throttle.read_iops_device"), limit)?;
            std::fs::write(group.join("cgroup.procs"), pid.to_string())
        };
        let throttle = Throttle { group: group.clone() };
        match enter() {
            Ok(()) => Some(throttle),
            Err(why) => {
                let _ = writeln!(std::io::stderr(), "skipped: no process can be slowed down here: {why}");
                None
            }
        }
    }

    /// Lets every write wait until the result is dropped. Reads go on.
    ///
    /// # Panics
    /// The system refuses.
    pub fn freeze(&self) -> Frozen {
        run("fsfreeze", ["-f"].map(OsStr::new), &[&self.path()])
            .unwrap_or_else(|why| panic!("freezing a drive: {why}"));
        Frozen { path: self.path() }
    }

    /// Makes it read-only while it is in use, as ext4 does by itself when it finds an error.
    ///
    /// # Panics
    /// The system lacks the way to do so.
    pub fn turn_read_only(&self) {
        std::fs::write(format!("/sys/fs/ext4/{}/trigger_fs_error", self.device()), "a scenario").unwrap();
    }

    /// The name of the loop device.
    fn device(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let mount = self.path().display().to_string();
        let own = mounts.lines().find(|line| line.split(' ').nth(1) == Some(&mount)).unwrap();
        own.split(' ').next().unwrap().trim_start_matches("/dev/").to_owned()
    }

    /// Mounts it read-only. No process may have a file of it open to write.
    ///
    /// # Panics
    /// The system refuses.
    pub fn seal(&self) {
        self.remount("remount,ro");
    }

    /// Mounts it writable again.
    ///
    /// # Panics
    /// The system refuses.
    pub fn unseal(&self) {
        self.remount("remount,rw");
    }

    fn remount(&self, how: &str) {
        run("mount", ["-o", how].map(OsStr::new), &[&self.path()])
            .unwrap_or_else(|why| panic!("mounting a drive again: {why}"));
    }

    /// Cuts the power: all that was not synced is lost, and every read and write fails until it is mounted
    /// again.
    ///
    /// # Panics
    /// The file system does not support it.
    pub fn cut_power(&self) {
        let cut = run("perl", ["-e", SHUTDOWN].map(OsStr::new), &[&self.path()]);
        cut.unwrap_or_else(|why| panic!("cutting a drive's power: {why}"));
    }

    /// Fills all but `left_bytes` of its room with a foreign file.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn fill_up_to(&self, left_bytes: u64) {
        let piece = vec![0x5a; 1 << 16];
        let mut file = OpenOptions::new().create(true).append(true).open(self.other()).unwrap();
        while self.free_bytes() > left_bytes {
            let wanted = (self.free_bytes() - left_bytes).min(piece.len() as u64) as usize;
            if file.write_all(&piece[..wanted]).is_err() {
                break;
            }
            // Room is allocated when the bytes go to the device.
            if wanted < piece.len() {
                let _ = file.sync_all();
                break;
            }
        }
    }

    /// Frees that room.
    pub fn empty(&self) {
        let _ = std::fs::remove_file(self.other());
    }

    fn other(&self) -> PathBuf {
        self.path().join("somebody-elses")
    }

    /// The bytes that are free for processes without privileges.
    pub fn free_bytes(&self) -> u64 {
        let stat = rustix::fs::statvfs(self.path()).unwrap();
        stat.f_bavail * stat.f_frsize
    }

    /// Writes everything to the device and drops all files from the page cache, so that the next read is the
    /// device's. Pages that are in use at the moment may stay.
    pub fn forget_pages(&self) {
        if let Ok(folder) = File::open(self.path()) {
            let _ = rustix::fs::syncfs(folder);
        }
        each_file(&self.path(), &mut |path| {
            // A file system that fails may no longer open the file.
            if let Ok(file) = File::open(path) {
                let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            }
        });
    }

    /// Cuts the device below the file system: what lay behind `bytes` cannot be read or written any more.
    ///
    /// # Panics
    /// It is not mounted on a device, or the system refuses.
    pub fn lose_all_behind(&self, bytes: u64) {
        const SECTOR_BYTES: u64 = 512;
        let (image, device) = (OpenOptions::new().write(true).open(self.image()).unwrap(), self.device());
        let node = PathBuf::from(format!("/dev/{device}"));
        let sectors = || std::fs::read_to_string(format!("/sys/block/{device}/size")).unwrap();
        // A write behind the end would make the image longer, with zeros where there was something: the
        // device ends there as well, and is cut again where such a write came in between.
        while sectors().trim() != (bytes / SECTOR_BYTES).to_string() {
            image.set_len(bytes).unwrap();
            run("losetup", ["-c"].map(OsStr::new), &[&node])
                .unwrap_or_else(|why| panic!("cutting a drive: {why}"));
        }
    }

    /// Flips a bit below the file system wherever one of these marks is, all of the same length. Returns the
    /// number of places. What is searched for must have been written to the device.
    ///
    /// # Panics
    /// The image cannot be read or written.
    pub fn flip_at(&self, marks: &[&[u8]]) -> usize {
        let file = OpenOptions::new().read(true).write(true).open(self.image()).unwrap();
        let bytes = std::fs::read(self.image()).unwrap();
        let length = marks.first().map_or(0, |mark| mark.len());
        let marks: HashSet<&[u8]> = marks.iter().copied().collect();
        let firsts: HashSet<u8> = marks.iter().map(|mark| mark[0]).collect();
        let mut is_first = [false; 256];
        firsts.iter().for_each(|byte| is_first[usize::from(*byte)] = true);
        let mut count = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if is_first[usize::from(*byte)]
                && bytes.get(at..at + length).is_some_and(|found| marks.contains(found))
            {
                file.write_all_at(&[byte ^ 4], at as u64).unwrap();
                count += 1;
            }
        }
        count
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        if self.is_mounted && run("umount", [], &[&self.path()]).is_err() {
            // A process that still uses it goes on without a name for it.
            let _ = run("umount", [OsStr::new("-l")], &[&self.path()]);
        }
        let _ = std::fs::remove_file(self.image());
        let _ = std::fs::remove_dir(self.path());
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Runs a tool to its end.
fn run<const N: usize>(tool: &str, args: [&OsStr; N], paths: &[&Path]) -> Result<(), String> {
    let mut command = Command::new(tool);
    command.args(args).args(paths).stdin(Stdio::null());
    // Tools of the system that not every path has.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let output = command.output().map_err(|why| format!("{tool}: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("{tool}: {}", said.trim()))
}

fn each_file(folder: &Path, act: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => each_file(&entry.path(), act),
            Ok(kind) if kind.is_file() => act(&entry.path()),
            _ => {}
        }
    }
}
