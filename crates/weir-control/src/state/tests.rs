//! Units of the state folder.

use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;

use super::*;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-state-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn it_is_made_closed_and_locked() {
    let folder = Folder::new();
    let path = folder.0.join("deep/state");
    let state = StateFolder::open(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
    let second = StateFolder::open(&path).unwrap_err();
    let said = second.to_string();
    assert!(said.contains(&format!("another Weir (pid {})", std::process::id())), "{said}");
    assert!(said.contains("--state DIR"), "{said}");
    drop(state);
    StateFolder::open(&path).unwrap();
}

#[test]
fn a_left_socket_is_replaced_and_the_new_one_is_private() {
    let folder = Folder::new();
    let path = folder.0.join("state");
    let state = StateFolder::open(&path).unwrap();
    drop(state.bind_socket().unwrap());
    assert!(UnixStream::connect(path.join(SOCKETS[0])).is_err());
    let _listener = state.bind_socket().unwrap();
    assert_eq!(mode(&path.join(SOCKETS[0])), 0o600);
    UnixStream::connect(path.join(SOCKETS[0])).unwrap();
    drop(state);
    assert!(!path.join(SOCKETS[0]).exists());
}

#[test]
fn a_folder_in_the_sockets_place_is_passed_by() {
    let folder = Folder::new();
    let path = folder.0.join("state");
    let state = StateFolder::open(&path).unwrap();
    fs::create_dir_all(path.join(SOCKETS[0]).join("somebody's")).unwrap();
    let _listener = state.bind_socket().unwrap();
    let (socket, _open) = socket_of(&path).unwrap();
    assert!(socket.ends_with(SOCKETS[1]) && mode(&socket) == 0o600);
    UnixStream::connect(&socket).unwrap();
    drop(state);
    assert!(!path.join(SOCKETS[1]).exists() && path.join(SOCKETS[0]).exists());
    fs::remove_dir_all(path.join(SOCKETS[0])).unwrap();
    // One that was left behind under the other name is not taken for the socket.
    drop(UnixListener::bind(path.join(SOCKETS[1])).unwrap());
    let state = StateFolder::open(&path).unwrap();
    let _listener = state.bind_socket().unwrap();
    let (socket, _open) = socket_of(&path).unwrap();
    UnixStream::connect(socket).unwrap();
    assert!(!path.join(SOCKETS[1]).exists());
}

#[test]
fn a_folder_that_others_may_enter_is_closed_where_all_in_it_is_weirs() {
    let folder = Folder::new();
    let names = ["ledger", "volumes", "frequencies", "written-00", "ledger.new-2", "volumes.new"];
    names.iter().for_each(|name| fs::write(folder.0.join(name), "").unwrap());
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
    drop(StateFolder::open(&folder.0).unwrap());
    assert_eq!(mode(&folder.0), 0o700);
}

#[test]
fn a_long_path_is_reached_all_the_same() {
    let folder = Folder::new();
    let path = folder.0.join("long".repeat(40));
    let state = StateFolder::open(&path).unwrap();
    let _listener = state.bind_socket().unwrap();
    let (socket, _open) = socket_of(&path).unwrap();
    UnixStream::connect(socket).unwrap();
}

#[test]
fn an_empty_folder_is_closed_and_a_used_one_refused() {
    let folder = Folder::new();
    let path = folder.0.join("wide");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    drop(StateFolder::open(&path).unwrap());
    assert_eq!(mode(&path), 0o700);
    fs::write(path.join("other"), "").unwrap();
    drop(StateFolder::open(&path).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = StateFolder::open(&path).unwrap_err();
    assert!(matches!(refused, StateError::Shared { mode: 0o755, .. }), "{refused}");
    assert_eq!(mode(&path), 0o755);
}

#[test]
fn the_default_follows_the_environment() {
    let check = |set: &[(&str, &str)], user, expect: Option<&str>| {
        let variable =
            |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        assert_eq!(default_path(&variable, user).ok(), expect.map(PathBuf::from));
    };
    check(&[("STATE_DIRECTORY", "/run/a:/run/b"), ("HOME", "/h")], User::Root, Some("/run/a"));
    check(&[("STATE_DIRECTORY", ""), ("HOME", "/h")], User::Root, Some("/var/lib/weir"));
    check(&[("HOME", "/h")], User::Other, Some("/h/.local/state/weir"));
    check(&[], User::Other, None);
}
