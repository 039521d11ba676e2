//! What can be opened below a root, and what cannot.

use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, openat};

use super::{Hidden, OpenError, Root, RootRules, Siblings, Symlinks, Wait, by_steps};

/// A folder that is removed in the end.
struct Room(PathBuf);

impl Room {
    fn new() -> Room {
        let path = std::env::temp_dir().join(format!("weir-root-{:?}", std::thread::current().id()));
        let path = path.with_extension(std::process::id().to_string());
        std::fs::create_dir_all(path.join("root/sub")).unwrap();
        std::fs::write(path.join("secret"), "secret").unwrap();
        std::fs::write(path.join("root/file"), "file").unwrap();
        std::fs::write(path.join("root/sub/deep"), "deep").unwrap();
        Room(path)
    }

    fn root(&self, symlinks: Symlinks) -> Root {
        let rules = RootRules {
            index: Vec::new(),
            hidden: Hidden::NotServed,
            symlinks,
            siblings: Siblings::Used,
            lists: false,
        };
        Root::new(self.0.join("root"), rules)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(root: &Root, names: &str) -> Result<OwnedFd, OpenError> {
    root.open(names.as_bytes(), Wait::May, weir_clock::mono())
}

#[test]
fn links_are_followed_below_the_root_alone() {
    let room = Room::new();
    let root = room.0.join("root");
    symlink("sub/deep", root.join("inside")).unwrap();
    symlink("inside", root.join("chain")).unwrap();
    symlink("../secret", root.join("outside")).unwrap();
    symlink("outside", root.join("chain-out")).unwrap();
    symlink("/etc/passwd", root.join("absolute")).unwrap();
    symlink("..", root.join("sub/up")).unwrap();
    symlink("../..", root.join("sub/out")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("/proc/self/fd/0", root.join("magic")).unwrap();
    let beneath = room.root(Symlinks::Beneath);
    for name in ["file", "sub/deep", "inside", "chain", "sub/up/file", "", "sub"] {
        assert!(open(&beneath, name).is_ok(), "{name}");
    }
    let outside = [
        "outside",
        "chain-out",
        "absolute",
        "sub/out/secret",
        "loop",
        "magic",
        "../secret",
        "sub/../../secret",
        "/etc/passwd",
    ];
    for name in outside {
        assert!(matches!(open(&beneath, name), Err(OpenError::Refused)), "{name}");
    }
    for name in ["none", "sub/none", "sub/up/none", "file/below"] {
        assert!(matches!(open(&beneath, name), Err(OpenError::NotThere)), "{name}");
    }
    let refused = room.root(Symlinks::Refused);
    for name in ["file", "sub/deep"] {
        assert!(open(&refused, name).is_ok(), "{name}");
    }
    for name in outside.into_iter().chain(["inside", "chain", "sub/up/file"]) {
        assert!(matches!(open(&refused, name), Err(OpenError::Refused)), "{name}");
    }
    // As on a kernel without `openat2`.
    let folder = openat(CWD, &root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    for name in ["file", "sub/deep"] {
        assert!(by_steps(&folder, name.as_bytes()).is_ok(), "{name}");
    }
    for name in outside.into_iter().chain(["inside", "chain", "sub/up/file", "sub/.."]) {
        assert!(by_steps(&folder, name.as_bytes()).is_err(), "{name}");
    }
    for name in ["outside", "sub/out/secret", "sub/up/file", "absolute"] {
        let opened = by_steps(&folder, name.as_bytes());
        assert!(matches!(opened, Err(OpenError::Refused)), "{name}");
    }
    for name in ["none", "file/below", "sub/none/deeper"] {
        let opened = by_steps(&folder, name.as_bytes());
        assert!(matches!(opened, Err(OpenError::NotThere)), "{name}");
    }
}

#[test]
fn a_fifo_a_socket_and_a_device_do_not_make_it_wait() {
    let room = Room::new();
    let root = room.0.join("root");
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let _socket = UnixListener::bind(root.join("socket")).unwrap();
    let beneath = room.root(Symlinks::Beneath);
    // What it opened is looked at afterwards: a FIFO is no file.
    assert!(open(&beneath, "fifo").is_ok());
    assert!(matches!(open(&beneath, "socket"), Err(OpenError::Refused)));
    assert!(matches!(open(&beneath, "file/below"), Err(OpenError::NotThere)));
    assert!(matches!(open(&beneath, &"n".repeat(300)), Err(OpenError::NotThere)));
}

#[test]
fn a_root_that_is_replaced_is_seen() {
    let room = Room::new();
    std::fs::create_dir(room.0.join("other")).unwrap();
    std::fs::write(room.0.join("other/new"), "new").unwrap();
    let root = room.root(Symlinks::Beneath);
    assert!(open(&root, "file").is_ok());
    std::fs::rename(room.0.join("root"), room.0.join("old")).unwrap();
    std::fs::rename(room.0.join("other"), room.0.join("root")).unwrap();
    let later = weir_clock::mono() + super::HELD;
    assert!(root.open(b"new", Wait::May, later).is_ok());
    assert!(root.open(b"file", Wait::May, later).is_err());
}
