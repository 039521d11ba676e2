//! A real CA for tests: Let's Encrypt's Pebble with the DNS server of its test tools, on ports of this
//! machine. Where it is not installed, tests that need it say so and pass.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::ports::free_port;
use crate::tls::Authority;
use crate::wait::until;

/// A Pebble about to be started.
pub struct PebbleSetup {
    http_port: u16,
    tls_port: u16,
    environment: Vec<(String, String)>,
    external: Option<(String, String)>,
    blocked: Vec<String>,
    validity_s: u64,
    port: u16,
}

/// A running Pebble. Every DNS name is 127.0.0.1 for it.
pub struct Pebble {
    ca: Child,
    dns: Child,
    setup: PebbleSetup,
    program: PathBuf,
    folder: PathBuf,
    dns_port: u16,
    management: u16,
    roots: String,
}

/// The variable that names another pebble, such as an older one.
const PROGRAM: &str = "WEIR_PEBBLE";

impl PebbleSetup {
    /// One that validates HTTP-01 and TLS-ALPN-01 on these ports of 127.0.0.1, without pauses and without
    /// refusing good nonces.
    pub fn new(http_port: u16, tls_port: u16) -> Self {
        let environment =
            [("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0"), ("PEBBLE_AUTHZREUSE", "0")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let validity_s = 90 * 86_400;
        let (external, blocked) = (None, Vec::new());
        Self { http_port, tls_port, environment, external, blocked, validity_s, port: free_port() }
    }

    /// One of Pebble's variables, such as `PEBBLE_WFE_NONCEREJECT`.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Accounts need this external key: its name, and base64url.
    #[must_use]
    pub fn external(mut self, key_id: &str, key: &str) -> Self {
        self.external = Some((key_id.to_owned(), key.to_owned()));
        self
    }

    /// Orders for this name are refused.
    #[must_use]
    pub fn block(mut self, name: &str) -> Self {
        self.blocked.push(name.to_owned());
        self
    }

    /// The URL of its directory, known before it runs.
    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }

    /// Starts it, or says that it is not installed.
    pub fn start(self, folder: &Path) -> Option<Pebble> {
        let (Some(program), Some(dns)) = (found("pebble"), found("pebble-challtestsrv")) else {
            eprintln!("skipped: pebble and pebble-challtestsrv are not installed");
            return None;
        };
        std::fs::create_dir_all(folder).unwrap();
        let authority = Authority::new();
        let (chain, key) = authority.issue(&["127.0.0.1", "localhost"]);
        std::fs::write(folder.join("cert.pem"), chain).unwrap();
        std::fs::write(folder.join("key.pem"), key).unwrap();
        let (management, dns_port, dns_management) = (free_port(), free_port(), free_port());
        std::fs::write(folder.join("pebble.json"), self.config(folder, management)).unwrap();
        let mut dns = Command::new(dns);
        dns.args(["-http01", "", "-https01", "", "-doh", "", "-tlsalpn01", "", "-defaultIPv6", ""]);
        dns.args(["-dnsserver", &format!("127.0.0.1:{dns_port}")]);
        dns.args(["-management", &format!("127.0.0.1:{dns_management}")]);
        let roots = authority.pem().to_owned();
        let dns = spawned(dns, folder);
        let ca = spawned(self.command(&program, folder, dns_port), folder);
        let folder = folder.to_owned();
        let pebble = Pebble { ca, dns, folder, setup: self, program, dns_port, management, roots };
        pebble.wait();
        Some(pebble)
    }

    fn command(&self, program: &Path, folder: &Path, dns_port: u16) -> Command {
        let mut pebble = Command::new(program);
        pebble.args(["-config", &folder.join("pebble.json").display().to_string()]);
        pebble.args(["-dnsserver", &format!("127.0.0.1:{dns_port}")]).envs(self.environment.iter().cloned());
        pebble
    }

    fn config(&self, folder: &Path, management: u16) -> String {
        let keys = self.external.as_ref().map(|(id, key)| format!("{id:?}: {key:?}")).unwrap_or_default();
        let validity_s = self.validity_s;
        let profile = |s: u64| format!("{{ \"description\": \"of a test\", \"validityPeriod\": {s} }}");
        format!(
            r#"{{ "pebble": {{ "listenAddress": "127.0.0.1:{}",
            "managementListenAddress": "127.0.0.1:{management}",
            "certificate": {:?}, "privateKey": {:?}, "httpPort": {}, "tlsPort": {}, "ocspResponderURL": "",
            "externalAccountBindingRequired": {}, "externalAccountMACKeys": {{ {keys} }},
            "domainBlocklist": {:?}, "retryAfter": {{ "authz": 1, "order": 1 }}, "keyAlgorithm": "ecdsa",
            "certificateValidityPeriod": {validity_s},
            "profiles": {{ "default": {}, "shortlived": {} }} }} }}"#,
            self.port,
            folder.join("cert.pem"),
            folder.join("key.pem"),
            self.http_port,
            self.tls_port,
            self.external.is_some(),
            self.blocked,
            profile(validity_s),
            profile(6 * 86_400),
        )
    }
}

fn spawned(mut command: Command, folder: &Path) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(folder.join("pebble.log")).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().unwrap()
}

/// A program of the path, or of Go's folder.
fn found(program: &str) -> Option<PathBuf> {
    if program == "pebble"
        && let Some(named) = std::env::var_os(PROGRAM)
    {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(std::env::var_os("GOPATH").map(|path| PathBuf::from(path).join("bin")));
    folders.extend(std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin")));
    folders.into_iter().map(|folder| folder.join(program)).find(|file| file.is_file())
}

impl Pebble {
    /// The URL of its directory.
    pub fn directory(&self) -> String {
        self.setup.directory()
    }

    /// Its host and port.
    pub(crate) fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.setup.port)
    }

    /// The root that its own TLS is verified by, as PEM.
    pub fn roots(&self) -> &str {
        &self.roots
    }

    /// The port of its management interface.
    pub fn management(&self) -> u16 {
        self.management
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("pebble.log")).unwrap_or_default()
    }

    /// Ends it and starts it again: it has forgotten all accounts, orders and certificates.
    pub fn restart(&mut self) {
        self.ca.kill().unwrap();
        self.ca.wait().unwrap();
        self.ca = spawned(self.setup.command(&self.program, &self.folder, self.dns_port), &self.folder);
        self.wait();
    }

    fn wait(&self) {
        let port = self.setup.port;
        until("pebble listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for process in [&mut self.ca, &mut self.dns] {
            // It may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
