//! Each folder that Weir uses hangs in turn, while requests come: those that need nothing of it go on, what
//! does is told so in bounded time, and all is well once it answers.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use weir_testkit::{Authority, Client, Drive, Hung, Origin, Resource, Setup, TlsClient, Weir, until};

use crate::content::kit::{lay, put};
use crate::server::{server, setup};

const SILENT: &str = "does not answer";

/// An origin whose pages are stored, and that takes everything.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.body();
        exchange.reply(200, &[("Cache-Control", "max-age=3600")], "page");
    });
    origin.put("/own", Resource::fresh("own"));
    origin
}

/// Requests that come all the time: hits, misses, and unsafe ones, which mark what they change.
struct Load {
    ends: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn begin(weir: &Weir) -> Load {
        let (ends, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let threads = (0..2).map(|thread| {
            let (ends, done, mut client) = (Arc::clone(&ends), Arc::clone(&done), weir.client());
            std::thread::spawn(move || {
                for number in 0.. {
                    let post = "POST /own HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nnews";
                    for ask in [
                        "GET /own HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
                        format!("GET /{thread}/{number} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                        post.to_owned(),
                    ] {
                        client.send(&ask);
                        let answer = client.recv().unwrap_or_else(|why| panic!("{ask:?}: {why}"));
                        assert_eq!(answer.status(), 200, "{ask:?}");
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                    if ends.load(Ordering::SeqCst) {
                        return;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            })
        });
        let threads = threads.collect();
        Load { ends, done, threads }
    }

    /// Requests go on from here, and so does what shows what is in memory.
    fn goes_on(&self, weir: &Weir) {
        let before = self.done.load(Ordering::SeqCst);
        until("requests go on", || self.done.load(Ordering::SeqCst) >= before + 100);
        for path in ["/health/live", "/health/ready", "/metrics"] {
            assert_eq!(weir.admin_get(path).status(), 200, "{path}");
        }
        for command in ["status", "volumes"] {
            let shown = weir.command(&[command]);
            assert_eq!(shown.code, Some(0), "{shown:?}");
        }
    }

    fn end(self) {
        self.ends.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// With a state folder on a drive.
fn state_on(drive: &Drive) -> Setup {
    let setup = setup();
    let state = drive.path().join("state");
    std::fs::create_dir(&state).unwrap();
    symlink(state, setup.folder().join("state")).unwrap();
    setup
}

const VOLUME: &str = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"16MiB\"\n";

#[test]
fn a_state_folder_that_hangs_holds_up_what_needs_it_alone() {
    let Some(drive) = Drive::ext4(64 << 20) else { return };
    let origin = origin();
    let mut weir = server(&[&origin]).more(VOLUME).start_in(state_on(&drive));
    let token = weir.token("view", &[]);
    lay(&weir, "http://localhost/laid", "by hand");
    let load = Load::begin(&weir);
    load.goes_on(&weir);
    let frozen = drive.freeze();
    // By now the register of volumes is being written, and never is.
    until("the register hangs", || weir.stderr().contains("cannot write the register of volumes"));
    load.goes_on(&weir);
    assert_eq!(weir.admin_get_with("/v1/status", &token).status(), 200);
    assert_eq!(weir.admin_get_with("/v1/status", "weir_wrong").status(), 401);
    // What must be durable says that it is not, and so does an upgrade, for which no request waits.
    let purged = weir.command(&["purge", "http://localhost/own"]);
    assert!(purged.code != Some(0) && purged.stderr.contains(SILENT), "{purged:?}");
    let upgraded = weir.command(&["upgrade"]);
    assert!(upgraded.code != Some(0) && upgraded.stderr.contains(SILENT), "{upgraded:?}");
    // Content by hand lies there, too: what is laid is answered, and no more is laid.
    let laid = put(&weir, "http://localhost/more", "more", &[]);
    assert!(laid.code != Some(0) && laid.stderr.contains(SILENT), "{laid:?}");
    assert_eq!(weir.get("/laid").text(), "by hand");
    load.goes_on(&weir);
    drop(frozen);
    until("purges are durable", || weir.command(&["purge", "http://localhost/own"]).code == Some(0));
    until("content is laid", || put(&weir, "http://localhost/more", "more", &[]).code == Some(0));
    assert_eq!((weir.get("/laid").text(), weir.get("/more").text()), ("by hand".into(), "more".into()));
    load.goes_on(&weir);
    load.end();
    let upgraded = weir.upgrade(&[]);
    assert_eq!(upgraded.code, Some(0), "{upgraded:?}");
    assert_eq!(weir.get("/own").status(), 200);
}

#[test]
fn logs_and_events_that_hang_hold_up_no_request() {
    let Some(drive) = Drive::ext4(64 << 20) else { return };
    let origin = origin();
    let at = |name: &str| drive.path().join(name).display().to_string();
    let logs = format!(
        "[log]\naccess = \"json\"\npath = \"{}\"\nupstream = \"{}\"\n[events]\nfile = \"{}\"\n",
        at("access.log"),
        at("upstream.log"),
        at("events.json")
    );
    let weir = server(&[&origin]).more(&logs).start();
    let load = Load::begin(&weir);
    load.goes_on(&weir);
    let frozen = drive.freeze();
    for _ in 0..20 {
        load.goes_on(&weir);
    }
    drop(frozen);
    load.goes_on(&weir);
    load.end();
}

/// Lets `folder` of a Weir hang under load.
fn hangs(weir: &Weir, folder: &Path) {
    let load = Load::begin(weir);
    load.goes_on(weir);
    let Some(hung) = Hung::over(folder) else { return load.end() };
    for _ in 0..5 {
        load.goes_on(weir);
    }
    drop(hung);
    load.goes_on(weir);
    load.end();
    assert_eq!(weir.reload().code, Some(0));
}

#[test]
fn certificates_that_hang_hold_up_no_handshake() {
    let origin = origin();
    let (setup, authority) = (setup(), Authority::new());
    std::fs::create_dir(setup.folder().join("pairs")).unwrap();
    setup.certificate("pairs/live", &authority, &["localhost"]);
    let tables = "[[listen]]\naddress = \"{tls}\"\ntls = true\nprotocols = [\"http/1.1\"]\n\
                  [[certificate]]\nchain = \"{folder}/pairs/*.pem\"\nkey = \"{folder}/pairs/*.key\"\n";
    let weir = server(&[&origin]).more(tables).start_in(setup);
    let client = TlsClient::trusting(&authority);
    let handshake = || {
        let socket = client.clone().forgetful().connect(weir.tls(), "localhost").unwrap();
        assert_eq!(Client::over(socket).get("localhost", "/own", &[]).status(), 200);
    };
    let load = Load::begin(&weir);
    load.goes_on(&weir);
    let folder = weir.folder().join("pairs");
    let Some(hung) = Hung::over(&folder) else { return load.end() };
    std::thread::scope(|scope| {
        let reloaded = scope.spawn(|| weir.reload());
        for _ in 0..10 {
            handshake();
            load.goes_on(&weir);
        }
        drop(hung);
        reloaded.join().unwrap();
    });
    load.goes_on(&weir);
    load.end();
    until("a reload succeeds", || weir.reload().code == Some(0));
    handshake();
}

#[test]
fn includes_that_hang_hold_up_no_request() {
    let origin = origin();
    let setup = setup();
    std::fs::create_dir(setup.folder().join("more")).unwrap();
    setup.file("more/a.toml", "[[site]]\nhosts = [\"other.test\"]\nupstream = \"main\"\n");
    let weir = server(&[&origin]).top("include = [\"more/*.toml\"]").start_in(setup);
    hangs(&weir, &weir.folder().join("more"));
}

#[test]
fn a_program_that_hangs_ends_its_own_upgrade_alone() {
    let origin = origin();
    let weir = server(&[&origin]).start();
    let folder = weir.folder().join("programs");
    let load = Load::begin(&weir);
    load.goes_on(&weir);
    let Some(hung) = Hung::over(&folder) else { return load.end() };
    let program = folder.join("weir").display().to_string();
    std::thread::scope(|scope| {
        let upgraded = scope.spawn(|| weir.command(&["upgrade", "--program", &program]));
        for _ in 0..5 {
            load.goes_on(&weir);
        }
        drop(hung);
        let upgraded = upgraded.join().unwrap();
        assert!(upgraded.code != Some(0) && !upgraded.stderr.is_empty(), "{upgraded:?}");
    });
    load.goes_on(&weir);
    load.end();
    let again = weir.command(&["upgrade"]);
    assert_eq!(again.code, Some(0), "{again:?}");
}
