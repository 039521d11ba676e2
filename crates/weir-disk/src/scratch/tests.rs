//! What may lie in the place of a file.

use std::io::Read as _;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{Scratch, open};
use crate::testing::Folder;

#[test]
fn what_has_the_name_of_an_unfinished_file_is_in_nobodys_way() {
    let folder = Folder::new("scratch");
    let path = folder.path();
    let write = |bytes: &[u8]| {
        let mut scratch = Scratch::create(path, "x.new", bytes).unwrap();
        scratch.rename(path.join("x")).unwrap();
        assert_eq!(std::fs::read(path.join("x")).unwrap(), bytes);
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
}

#[test]
fn what_is_no_file_is_said_and_not_waited_for() {
    let folder = Folder::new("kinds");
    let path = folder.path();
    assert!(open(&path.join("none")).unwrap().is_none());
    std::fs::write(path.join("file"), "content").unwrap();
    let mut text = String::new();
    open(&path.join("file")).unwrap().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "content");
    mknodat(CWD, path.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
    std::fs::create_dir(path.join("folder")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path.join("device")).unwrap();
    for (name, what) in
        [("pipe", "named pipe"), ("socket", "socket"), ("folder", "folder"), ("device", "device")]
    {
        let error = open(&path.join(name)).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("move it away"), "{error}");
    }
}
