//! Weir under a service manager: what it reports, and the sockets that it gets.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir_testkit::{Origin, Resource, free_port, is_alive, until};

use crate::server::{server, setup};

/// The manager's end of `NOTIFY_SOCKET`.
struct Manager(UnixDatagram);

impl Manager {
    fn at(address: &SocketAddr) -> Manager {
        let socket = UnixDatagram::bind_addr(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Manager(socket)
    }

    /// The next report, as lines.
    fn told(&self) -> Vec<String> {
        let mut buffer = [0; 4096];
        let bytes = self.0.recv(&mut buffer).expect("the manager is told something");
        String::from_utf8_lossy(&buffer[..bytes]).lines().map(str::to_owned).collect()
    }

    /// Waits for a report with this line.
    fn await_line(&self, line: &str) -> Vec<String> {
        loop {
            let told = self.told();
            if told.iter().any(|said| said == line) {
                return told;
            }
        }
    }
}

#[test]
fn the_manager_learns_of_start_reloads_upgrades_and_end() {
    let origin = Origin::start();
    let setup = setup();
    let path = setup.folder().join("notify");
    let manager = Manager::at(&SocketAddr::from_pathname(&path).unwrap());
    let setup = setup.env("NOTIFY_SOCKET", &path.display().to_string());
    let mut weir = server(&[&origin]).start_in(setup);
    let pid = weir.main_pid();
    let told = manager.told();
    assert_eq!(told[..2], ["READY=1".to_owned(), format!("MAINPID={pid}")]);
    assert!(told[2].starts_with("STATUS=weir "), "{told:?}");
    weir.signal("HUP");
    let told = manager.told();
    assert_eq!(told[0], "RELOADING=1");
    assert!(told[1].strip_prefix("MONOTONIC_USEC=").is_some_and(|us| us.parse::<u64>().is_ok()), "{told:?}");
    assert_eq!(manager.told()[0], "READY=1");
    assert_eq!(weir.upgrade(&[]).code, Some(0));
    let new = weir.main_pid();
    assert_ne!(new, pid);
    // The report of the old process counts, since it is still the main process. The new one follows.
    assert_eq!(manager.told()[0], format!("MAINPID={new}"));
    assert_eq!(manager.told()[..2], ["READY=1".to_owned(), format!("MAINPID={new}")]);
    assert!(Command::new("kill").arg(new.to_string()).status().unwrap().success());
    manager.await_line("STOPPING=1");
}

#[test]
fn an_abstract_name_is_one_too() {
    let origin = Origin::start();
    let setup = setup();
    let name = format!("weir-test-{}", setup.folder().file_name().unwrap().to_string_lossy());
    let manager = Manager::at(&SocketAddr::from_abstract_name(&name).unwrap());
    let weir = server(&[&origin]).start_in(setup.env("NOTIFY_SOCKET", &format!("@{name}")));
    assert_eq!(manager.told()[0], "READY=1");
    weir.signal("TERM");
    assert_eq!(manager.told()[0], "STOPPING=1");
}

/// A process that is killed with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `weir run` as a manager with sockets does: the sockets are descriptors 3 and 4.
fn activate(config: &std::path::Path, state: &std::path::Path, tcp: OwnedFd, unix: OwnedFd) -> Killed {
    let script = "exec 3<&0 4<&1 </dev/null >/dev/null; export LISTEN_PID=$$ LISTEN_FDS=2; exec \"$@\"";
    let binary = std::env::var("WEIR_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_weir").to_owned());
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", &binary, "run", "--config"]).arg(config);
    command.env("STATE_DIRECTORY", state).stdin(Stdio::from(tcp)).stdout(Stdio::from(unix));
    Killed(command.spawn().unwrap())
}

#[test]
fn sockets_of_the_manager_are_taken_by_their_address() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    let setup = setup();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = tcp.local_addr().unwrap();
    let path = setup.folder().join("weir.sock");
    let unix = UnixListener::bind(&path).unwrap();
    let own = free_port();
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:{}\"\n[[listen]]\naddress = \"unix:{}\"\n[[listen]]\n\
        address = \"{at}\"\n\
         [[listen]]\naddress = \"127.0.0.1:{own}\"\n[upstream.main]\norigins = [\"{}\"]\n[[site]]\n\
         hosts = [\"*\"]\n\
         upstream = \"main\"\n",
        free_port(),
        path.display(),
        origin.url()
    );
    let (config, state) = (setup.file("weir.toml", text), setup.folder().join("state"));
    let copies = || (tcp.try_clone().unwrap().into(), unix.try_clone().unwrap().into());
    let (one, other) = copies();
    let first = activate(&config, &state, one, other);
    let weir =
        |address: &str| weir_testkit::get(address.parse::<std::net::SocketAddr>().unwrap(), "/x").text();
    let own = format!("127.0.0.1:{own}");
    // A connection from before the start waits for it.
    assert_eq!(weir(&at.to_string()), "hello");
    assert_eq!(weir_testkit::get(weir_testkit::Address::Unix(path.clone()), "/x").text(), "hello");
    assert_eq!(weir(&own), "hello", "what the manager does not have is bound");
    // The manager's file stays, also over an upgrade. Connections wait while no process runs.
    let output = setup.command(&["upgrade"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let new = std::fs::read_to_string(state.join("lock")).unwrap();
    assert!(Command::new("kill").arg(new.trim()).status().unwrap().success());
    drop(first);
    let new: u32 = new.trim().parse().unwrap();
    // Until then it has the lock of the state folder.
    until("the new process ends", || !is_alive(new));
    assert!(!state.join("control.sock").exists());
    assert!(path.exists(), "the manager's file is none of Weir's");
    let waiting = std::net::TcpStream::connect(at).unwrap();
    let (one, other) = copies();
    let _second = activate(&config, &state, one, other);
    assert_eq!(weir(&at.to_string()), "hello");
    drop(waiting);
}
