//! The two disks behave alike, and the double loses what it says it loses.

use rustix::fs::{CWD, FileType, Mode, StatVfs, StatVfsMountFlags, mknodat};

use super::os::room_of;
use super::{Disk, OsDisk, Room, read_exact_at};
use crate::testing::{CrashDisk, Fault, Folder};

fn check(disk: &dyn Disk) {
    disk.make_folder("a").unwrap();
    let file = disk.create("a/one").unwrap();
    file.write_all_at(&[b"hello ", b"", b"world"], 3).unwrap();
    assert_eq!(file.length().unwrap(), 14);
    let mut bytes = [9; 20];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 14);
    assert_eq!(&bytes[..14], b"\0\0\0hello world");
    assert_eq!(file.read_at(&mut bytes, 14).unwrap(), 0);
    assert_eq!(file.read_at(&mut bytes, 100).unwrap(), 0);
    assert!(read_exact_at(&*file, &mut bytes, 0).is_err());
    file.sync_data().unwrap();
    disk.rename("a/one", "a/two").unwrap();
    assert_eq!(disk.list("a").unwrap(), ["two"]);
    assert_eq!(disk.open("a/one").unwrap_err().kind(), std::io::ErrorKind::NotFound);
    let again = disk.open("a/two").unwrap();
    again.truncate(5).unwrap();
    assert_eq!(file.length().unwrap(), 5);
    disk.unlink("a/two").unwrap();
    disk.sync_folder("a").unwrap();
    assert!(disk.list("a").unwrap().is_empty());
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 5, "who has it open goes on");
    assert!(disk.room().unwrap().total_bytes > 0);
}

/// Blocks of 4 KiB: all, those that are free, and those of them that may be used.
fn stat(blocks: u64, free: u64, usable: u64) -> StatVfs {
    StatVfs {
        f_bsize: 1 << 20,
        f_frsize: 4096,
        f_blocks: blocks,
        f_bfree: free,
        f_bavail: usable,
        f_files: 0,
        f_ffree: 0,
        f_favail: 0,
        f_fsid: 0,
        f_flag: StatVfsMountFlags::empty(),
        f_namemax: 255,
    }
}

#[test]
fn what_a_file_system_keeps_back_is_no_part_of_its_room() {
    let room = |blocks, free, usable| {
        let Room { total_bytes, free_bytes } = room_of(&stat(blocks, free, usable));
        (total_bytes / 4096, free_bytes / 4096)
    };
    assert_eq!(room(1000, 700, 700), (1000, 700), "nothing is kept back");
    assert_eq!(room(1000, 700, 650), (950, 650), "a twentieth");
    assert_eq!(room(1000, 700, 50), (350, 50), "most of it");
    assert_eq!(room(1000, 50, 0), (950, 0), "all that is left is kept back");
    assert_eq!(room(1000, 600, 700), (1000, 700), "one that contradicts itself");
    assert_eq!(room_of(&stat(u64::MAX, 1, 1)).total_bytes, u64::MAX);
}

#[test]
fn both_disks_do_the_same() {
    check(&CrashDisk::new(1));
    let folder = Folder::new("disk");
    check(&OsDisk::take(folder.path()).unwrap());
}

#[test]
fn many_parts_are_written_whole() {
    let folder = Folder::new("parts");
    let disk = OsDisk::take(folder.path()).unwrap();
    let file = disk.create("f").unwrap();
    let mut parts: Vec<Vec<u8>> = (0..3000usize).map(|n| vec![n as u8; n % 7]).collect();
    // Longer ones than are written at once, alone and together.
    parts.extend([2_000_000, 300_000, 300_000, 524_288, 1].map(|length| vec![length as u8; length]));
    let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    file.write_all_at(&slices, 11).unwrap();
    let mut read = vec![0; parts.concat().len()];
    read_exact_at(&*file, &mut read, 11).unwrap();
    assert_eq!(read, parts.concat());
}

#[test]
fn resident_reads_find_what_was_just_written_or_fail() {
    let folder = Folder::new("resident");
    let disk = OsDisk::take(folder.path()).unwrap();
    let file = disk.create("f").unwrap();
    file.write_all_at(&[&[7; 5000]], 0).unwrap();
    let mut bytes = [0; 5000];
    match file.read_resident_at(&mut bytes, 0) {
        Ok(count) => assert!(bytes[..count].iter().all(|byte| *byte == 7) && count > 0),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
    }
}

#[test]
fn a_folder_has_one_user() {
    let folder = Folder::new("lock");
    let first = OsDisk::take(folder.path()).unwrap();
    let second = OsDisk::take(folder.path());
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
    drop(first);
    OsDisk::take(folder.path()).unwrap();
}

#[test]
fn a_power_cut_keeps_what_was_synced_and_some_of_the_rest() {
    let (mut whole, mut none, mut torn, mut nameless) = (0, 0, 0, 0);
    for seed in 0..400 {
        let disk = CrashDisk::new(seed);
        let file = disk.create("f").unwrap();
        file.write_all_at(&[&[1; 2048]], 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_folder("").unwrap();
        file.write_all_at(&[&[2; 2048]], 2048).unwrap();
        disk.create("late").unwrap();
        disk.restart();
        let seen = disk.content("f").unwrap();
        assert_eq!(&seen[..2048], &[1; 2048]);
        nameless += u32::from(!disk.paths().contains(&"late".to_owned()));
        match seen[2048..].iter().filter(|byte| **byte == 2).count() {
            2048 => whole += 1,
            0 => none += 1,
            _ => torn += 1,
        }
    }
    assert!(whole > 50 && none > 50 && torn > 50 && nameless > 50, "{whole} {none} {torn} {nameless}");
}

#[test]
fn a_failed_sync_is_forgotten_by_the_next() {
    let disk = CrashDisk::new(3);
    let file = disk.create("f").unwrap();
    disk.sync_folder("").unwrap();
    file.write_all_at(&[&[1; 100]], 0).unwrap();
    disk.fail_at(0, Fault::Io);
    file.sync_data().unwrap_err();
    file.sync_data().unwrap();
    assert_eq!(disk.content("f").unwrap(), [1; 100], "the page cache has it");
    disk.restart();
    assert_eq!(disk.content("f").unwrap(), [0; 0], "the device never had it");
}

#[test]
fn after_a_power_cut_nothing_works_until_the_restart() {
    let disk = CrashDisk::new(3);
    let file = disk.create("f").unwrap();
    disk.fail_at(1, Fault::PowerCut);
    file.write_all_at(&[b"x"], 0).unwrap();
    file.write_all_at(&[b"y"], 1).unwrap_err();
    file.sync_data().unwrap_err();
    disk.list("").unwrap_err();
    disk.restart();
    disk.list("").unwrap();
    file.length().unwrap_err();
}

/// Whatever has the name of an unfinished file is in nobody's way.
#[test]
fn a_file_is_replaced_beside_whatever_lies_there() {
    let folder = Folder::new("replace");
    let path = folder.path();
    let disk = OsDisk::at(path);
    let write = |bytes: &[u8]| {
        disk.replace("x", bytes).unwrap();
        assert_eq!(std::fs::read(path.join("x")).unwrap(), bytes);
        assert_eq!(disk.read("x", 10).unwrap().unwrap(), bytes);
    };
    std::fs::write(path.join("x.new"), "left behind").unwrap();
    write(b"1");
    mknodat(CWD, path.join("x.new"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    write(b"2");
    assert!(!path.join("x.new").exists());
    std::fs::create_dir_all(path.join("x.new/somebody's")).unwrap();
    write(b"3");
    std::fs::create_dir_all(path.join("x.new-2")).unwrap();
    write(b"4");
    assert!(path.join("x.new/somebody's").is_dir() && path.join("x.new-2").is_dir());
    disk.overwrite("x", b"longer than it was").unwrap();
    disk.overwrite("x", b"short").unwrap();
    assert_eq!(disk.read("x", 5).unwrap().unwrap(), b"short");
    assert_eq!(disk.read("x", 4).unwrap_err().kind(), std::io::ErrorKind::FileTooLarge);
}

#[test]
fn something_that_is_no_file_is_an_error() {
    let folder = Folder::new("kinds");
    let path = folder.path();
    let disk = OsDisk::at(path);
    assert!(disk.read("none", 10).unwrap().is_none() && disk.identity("none").unwrap().is_none());
    mknodat(CWD, path.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
    std::fs::create_dir(path.join("folder")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path.join("device")).unwrap();
    for (name, what) in
        [("pipe", "named pipe"), ("socket", "socket"), ("folder", "folder"), ("device", "device")]
    {
        let error = disk.read(name, 10).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("move it away"), "{error}");
    }
}

/// The power goes at every operation of a replacement: the file has the old content or the new, whole.
#[test]
fn a_replacement_is_whole_or_not_at_all() {
    for cut in 0..10 {
        for seed in 0..40 {
            let disk = CrashDisk::new(seed);
            disk.replace("x", b"the old content").unwrap();
            disk.fail_at(cut, Fault::PowerCut);
            let written = disk.replace("x", b"another content that is longer");
            disk.restart();
            let content = disk.read("x", 100).unwrap().unwrap();
            match written {
                Ok(_) => assert_eq!(content, b"another content that is longer"),
                Err(_) => {
                    assert!(content == b"the old content" || content == b"another content that is longer")
                }
            }
        }
    }
}

#[test]
fn a_process_without_power_does_nothing_more() {
    let disk = CrashDisk::new(1);
    let (old, file) = (disk.process(), disk.process().replace("x", b"old").unwrap());
    disk.cut(7);
    assert!(old.replace("x", b"late").is_err() && file.write_all_at(&[b"late"], 0).is_err());
    assert_eq!(disk.process().read("x", 10).unwrap().unwrap(), b"old");
}
