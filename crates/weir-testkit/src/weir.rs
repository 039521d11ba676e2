//! The real Weir as a child process.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::group::MemoryGroup;
use crate::ports::{free_port, is_listened_on};
use crate::response::Response;
use crate::socket::{Address, PATIENCE};
use crate::tls::Authority;
use crate::wait::until;

/// How a config begins a volume.
const VOLUME: &str = "[[cache.volume]]\n";
/// Numbers the names of tokens.
static TOKENS_MADE: AtomicUsize = AtomicUsize::new(0);

/// A volume that is waited for as long as the kit waits.
fn patient_volume() -> String {
    format!("{VOLUME}read_timeout = \"{}s\"\n", PATIENCE.as_secs())
}

/// What a finished command left.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// A Weir to start: the binary, its folder, its ports.
pub struct Setup {
    binary: PathBuf,
    folder: PathBuf,
    listen: SocketAddr,
    tls: SocketAddr,
    admin: SocketAddr,
    args: Vec<String>,
    environment: Vec<(String, String)>,
    /// What a shell does before it becomes the Weir.
    first: Option<String>,
}

/// A running Weir. Dropping it kills the process by its pid and removes its folder.
pub struct Weir {
    child: Option<Child>,
    /// Processes that have taken over from the child and from one another.
    successors: Vec<u32>,
    setup: Setup,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
}

impl Setup {
    /// A Weir of this binary with a folder and ports of its own, and defaults for the rest.
    pub fn new(binary: impl AsRef<Path>) -> Setup {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-it-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let local = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        Setup {
            binary: binary.as_ref().to_owned(),
            folder,
            listen: local(),
            tls: local(),
            admin: local(),
            args: Vec::new(),
            environment: Vec::new(),
            first: None,
        }
    }

    /// Its folder, which is removed with the Weir.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file in the folder.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Another address for clients.
    #[must_use]
    pub fn listen(mut self, listen: SocketAddr) -> Self {
        self.listen = listen;
        self
    }

    /// One more argument of `weir run`.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// One more variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs it in a control group.
    #[must_use]
    pub fn within(self, group: &MemoryGroup) -> Self {
        self.first(&format!("echo $$ > '{}'", group.procs().display()))
    }

    /// Has a shell do this before it becomes the Weir, such as setting a limit.
    #[must_use]
    pub fn first(mut self, command: &str) -> Self {
        self.first = Some(command.to_owned());
        self
    }

    /// Starts `weir run` in front of one origin, and waits until it accepts connections.
    pub fn run(mut self, origin: &str) -> Weir {
        let args =
            ["--origin", origin, "--listen", &self.listen.to_string(), "--admin", &self.admin.to_string()]
                .map(ToOwned::to_owned);
        self.args.splice(0..0, args);
        self.start()
    }

    /// Writes a certificate and its key of `authority` for these names into the folder, as `NAME.pem` and
    /// `NAME.key`.
    pub fn certificate(&self, name: &str, authority: &Authority, names: &[&str]) {
        let (chain, key) = authority.issue(names);
        self.file(&format!("{name}.pem"), chain);
        self.file(&format!("{name}.key"), key);
    }

    /// Starts `weir run --config` with this text, and waits until it accepts connections. Replaces
    /// `{listen}`, `{tls}` (a second address for clients), `{admin}` and `{folder}` in the text.
    pub fn run_config(mut self, text: &str) -> Weir {
        let path = self.write_config(text);
        self.args.splice(0..0, ["--config".to_owned(), path.display().to_string()]);
        self.start()
    }

    /// As [`Setup::run_config`], but returns what a Weir said that has ended.
    ///
    /// # Errors
    /// It ended before it accepted connections.
    pub fn try_run_config(mut self, text: &str) -> Result<Weir, String> {
        let path = self.write_config(text);
        self.args.splice(0..0, ["--config".to_owned(), path.display().to_string()]);
        let mut weir = self.unstarted();
        weir.try_start_again().map(|()| weir)
    }

    /// Starts `weir run` with the given arguments alone, and waits until it accepts connections on its
    /// address.
    pub fn run_bare(self) -> Weir {
        self.start()
    }

    /// Writes the config file and says where it lies. A volume of it is slow where that is what the text is
    /// about: elsewhere a drive that many share may take its time.
    ///
    /// # Panics
    /// Where a volume of it would have no room in the temporary folder.
    pub fn write_config(&self, text: &str) -> PathBuf {
        if text.contains(VOLUME) {
            crate::room::check(&std::env::temp_dir());
        }
        let patient = if text.contains("read_timeout") { VOLUME.to_owned() } else { patient_volume() };
        let text = text
            .replace(VOLUME, &patient)
            .replace("{listen}", &self.listen.to_string())
            .replace("{tls}", &self.tls.to_string())
            .replace("{admin}", &self.admin.to_string())
            .replace("{folder}", &self.folder.display().to_string());
        self.file("weir.toml", text)
    }

    /// Runs the binary with these arguments to its end.
    pub fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(&self.binary);
        command.args(args).envs(self.environment.iter().cloned());
        command.env("STATE_DIRECTORY", self.state()).current_dir(&self.folder).stdin(Stdio::null());
        finish(command)
    }

    fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    fn start(self) -> Weir {
        let mut weir = self.unstarted();
        weir.start_again();
        weir
    }

    fn unstarted(self) -> Weir {
        Weir {
            child: None,
            successors: Vec::new(),
            setup: self,
            stdout: Arc::default(),
            stderr: Arc::default(),
        }
    }
}

impl Weir {
    /// Starts it again in its folder with the same arguments, and waits until it accepts connections. Waits
    /// first for the end of one that runs. Its outputs begin again.
    pub fn start_again(&mut self) {
        if let Err(said) = self.try_start_again() {
            panic!("weir has not started:\n{said}");
        }
    }

    /// As [`Weir::start_again`], but returns what a Weir said that has ended.
    ///
    /// # Errors
    /// It ended before it accepted connections.
    pub fn try_start_again(&mut self) -> Result<(), String> {
        if let Some(mut child) = self.child.take() {
            child.wait().unwrap();
        }
        let setup = &self.setup;
        let mut command = match &setup.first {
            Some(first) => {
                let mut command = Command::new("sh");
                command.args(["-c", &format!("{first} && exec \"$0\" \"$@\"")]).arg(&setup.binary);
                command
            }
            None => Command::new(&setup.binary),
        };
        command.arg("run").args(&setup.args).envs(setup.environment.iter().cloned());
        command.env("STATE_DIRECTORY", setup.state()).current_dir(&setup.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|why| panic!("start {:?}: {why}", setup.binary));
        self.stdout = collect(child.stdout.take().unwrap());
        self.stderr = collect(child.stderr.take().unwrap());
        self.child = Some(child);
        let begun = Instant::now();
        while Address::Tcp(self.addr()).connect().is_err() || !self.listens_with_tls() {
            if let Some(ended) = self.child.as_mut().and_then(|child| child.try_wait().unwrap()) {
                self.child = None;
                // Its last output may still be on its way.
                std::thread::sleep(Duration::from_millis(50));
                return Err(format!("{ended}\n{}", self.said()));
            }
            assert!(begun.elapsed() < PATIENCE, "weir does not listen on {}:\n{}", self.addr(), self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Whether it listens on `{tls}`, if its config has that. A connection would count as a bad handshake.
    fn listens_with_tls(&self) -> bool {
        let config = std::fs::read_to_string(self.setup.folder.join("weir.toml")).unwrap_or_default();
        !config.contains(&self.setup.tls.to_string()) || is_listened_on(self.setup.tls.port())
    }

    fn said(&self) -> String {
        format!("{}{}", self.stdout(), self.stderr())
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.setup.listen
    }

    /// Where clients connect with TLS, if the config listens on `{tls}`.
    pub fn tls(&self) -> SocketAddr {
        self.setup.tls
    }

    /// The admin listener.
    pub fn admin(&self) -> SocketAddr {
        self.setup.admin
    }

    /// The folder of this Weir.
    pub fn folder(&self) -> &Path {
        &self.setup.folder
    }

    /// Its state folder.
    pub fn state(&self) -> PathBuf {
        self.setup.state()
    }

    /// Connects a client to it.
    pub fn client(&self) -> Client {
        Client::connect(self.addr())
    }

    /// One GET on a connection of its own, with `Host: localhost`.
    pub fn get(&self, target: &str) -> Response {
        self.get_with(target, &[])
    }

    /// One GET on a connection of its own, with `Host: localhost` and more headers.
    pub fn get_with(&self, target: &str, headers: &[(&str, &str)]) -> Response {
        crate::client::get_with(self.addr(), target, headers)
    }

    /// A page of the admin listener, such as `/metrics`.
    pub fn admin_get(&self, target: &str) -> Response {
        crate::client::get(self.admin(), target)
    }

    /// A page of the admin listener, asked for with a token.
    pub fn admin_get_with(&self, target: &str, token: &str) -> Response {
        crate::client::get_with(self.admin(), target, &[("Authorization", &format!("Bearer {token}"))])
    }

    /// A new token with this role, for these sites, or for all.
    ///
    /// # Panics
    /// It is not made.
    pub fn token(&self, role: &str, sites: &[&str]) -> String {
        let name = format!("{role}-{}", TOKENS_MADE.fetch_add(1, Ordering::Relaxed));
        let mut args = vec!["token", "add", &name, "--role", role];
        sites.iter().for_each(|site| args.extend(["--site", site]));
        let made = self.command(&args);
        assert_eq!(made.code, Some(0), "{made:?}");
        made.stdout.lines().next().unwrap_or_default().to_owned()
    }

    /// The value of one series of `/metrics`, such as `weir_requests_total{site="x"}`; `None` if it is
    /// missing.
    pub fn metric(&self, series: &str) -> Option<f64> {
        let text = self.admin_get("/metrics").text();
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(series)?;
            let value =
                rest.strip_prefix(' ').or_else(|| Some(rest.strip_prefix('{')?.split_once("} ")?.1))?;
            value.trim().parse::<f64>().ok()
        });
        // A name without labels stands for the sum of its series.
        values.reduce(|one, other| one + other)
    }

    /// The pid.
    ///
    /// # Panics
    /// After it was waited for.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("weir has ended").id()
    }

    /// Sends a signal by name: `HUP`, `TERM`, `INT`, `USR1`, `USR2`, `KILL`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        use rustix::process::{Pid, Signal, kill_process};
        let signal = match name {
            "HUP" => Signal::HUP,
            "TERM" => Signal::TERM,
            "INT" => Signal::INT,
            "USR1" => Signal::USR1,
            "USR2" => Signal::USR2,
            "KILL" => Signal::KILL,
            "STOP" => Signal::STOP,
            "CONT" => Signal::CONT,
            other => panic!("no signal {other}"),
        };
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Writes another config over the one it was started with, without telling it.
    pub fn rewrite_config(&self, text: &str) -> PathBuf {
        self.setup.write_config(text)
    }

    /// Runs `weir` with these arguments on this Weir's state folder.
    pub fn command(&self, args: &[&str]) -> Output {
        self.setup.command(args)
    }

    /// Runs `weir upgrade` with more arguments. The process that has taken over ends with this value.
    pub fn upgrade(&mut self, args: &[&str]) -> Output {
        let output = self.command(&[&["upgrade"], args].concat());
        self.main_pid();
        output
    }

    /// The pid of the process that has the state folder now. It ends with this value.
    ///
    /// # Panics
    /// No process has it.
    pub fn main_pid(&mut self) -> u32 {
        let lock = std::fs::read_to_string(self.state().join("lock")).unwrap();
        let pid = lock.trim().parse().unwrap_or_else(|why| panic!("a pid in {lock:?}: {why}"));
        let own = self.child.as_ref().map(Child::id);
        if own != Some(pid) && !self.successors.contains(&pid) {
            self.successors.push(pid);
        }
        pid
    }

    /// Ends the process that has the state folder now and all before it, waits for that, and starts again.
    pub fn restart(&mut self) {
        let pid = self.main_pid();
        if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        until("the old processes end", || !self.successors.iter().any(|pid| is_alive(*pid)));
        self.successors.clear();
        self.start_again();
    }

    /// Runs `weir reload`.
    pub fn reload(&self) -> Output {
        self.command(&["reload"])
    }

    /// Waits up to `longest` for it to end by itself; `None` if it has not.
    pub fn wait(&mut self, longest: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < longest {
            if let Some(status) = self.child.as_mut().and_then(|c| c.try_wait().unwrap()) {
                self.child = None;
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Whether it is running.
    pub fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|c| c.try_wait().unwrap().is_none())
    }

    /// Its standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.lock().unwrap().clone()
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until its standard error has a text.
    pub fn await_stderr(&self, text: &str) {
        until(&format!("{text:?} on stderr of weir"), || self.stderr().contains(text));
    }

    /// Resident memory now, in bytes.
    pub fn rss(&self) -> u64 {
        self.status_field("VmRSS:")
    }

    /// The largest resident memory so far, in bytes.
    pub fn rss_peak(&self) -> u64 {
        self.status_field("VmHWM:")
    }

    /// Anonymous resident memory now, in bytes; 0 once it has ended.
    pub fn anonymous(&self) -> u64 {
        self.status_field("RssAnon:")
    }

    /// How often its threads have been woken.
    pub fn woken(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        let of = |status: String| {
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        tasks.map(|task| std::fs::read_to_string(task.path().join("status")).map_or(0, of)).sum()
    }

    /// How many files it holds open.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    fn status_field(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0 kB");
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) * 1024
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for pid in &self.successors {
            let known = i32::try_from(*pid).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(known) = known.filter(|_| is_alive(*pid)) {
                let _ = rustix::process::kill_process(known, rustix::process::Signal::KILL);
            }
        }
        if !std::thread::panicking() {
            let said = self.stderr();
            assert!(
                !said.contains("panicked at"),
                "weir panicked under a scenario that did not notice:\n{said}"
            );
        } else {
            let said = format!("{}{}", self.stdout(), self.stderr());
            let tail: Vec<&str> = said.lines().rev().take(40).collect();
            let text: String = tail.iter().rev().map(|line| format!("  weir: {line}\n")).collect();
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Whether a process is running. One that has ended and was not waited for is not.
pub fn is_alive(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let has_ended = |stat: &str| {
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state.is_none_or(|state| matches!(state, 'Z' | 'X'))
    };
    // The first thread may have ended before others, which hold the sockets open.
    tasks
        .map(|task| std::fs::read_to_string(task.path().join("stat")).unwrap_or_default())
        .any(|stat| !has_ended(&stat))
}

/// Runs a command to its end. Kills it when the kit's patience is over.
fn finish(mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|why| panic!("start {command:?}: {why}"));
    let stdout = collect(child.stdout.take().unwrap());
    let stderr = collect(child.stderr.take().unwrap());
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if begun.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    // The collectors hold the other handle until the pipe ends.
    until("the end of a command's output", || Arc::strong_count(&stdout) + Arc::strong_count(&stderr) == 2);
    let text = |s: &Arc<Mutex<String>>| s.lock().unwrap().clone();
    Output { code: status.and_then(|s| s.code()), stdout: text(&stdout), stderr: text(&stderr) }
}

fn collect(mut from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let sink = text.clone();
    std::thread::spawn(move || {
        let mut piece = [0u8; 4096];
        while let Ok(n) = from.read(&mut piece) {
            if n == 0 {
                return;
            }
            sink.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..n]));
        }
    });
    text
}
