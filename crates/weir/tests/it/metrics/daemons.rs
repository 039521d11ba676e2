//! The daemons that measure origins, for real: Debian's `gmond` with `gmetric`, and
//! `prometheus-node-exporter`. They listen on 127.0.0.1, use no multicast, and end with their values. Skipped
//! where there is none.

use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use weir_testkit::{free_port, until};

/// Whether there is such a program; says where not.
pub(super) fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        eprintln!("skipped: there is no {program}");
    }
    found.is_ok()
}

/// A process, killed with its value.
struct Running(Child);

impl Running {
    fn start(command: &mut Command, port: u16) -> Running {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running(quiet.spawn().unwrap());
        until("the daemon listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A gmond that measures nothing itself: it tells what `gmetric` tells it.
pub(super) struct Gmond {
    config: PathBuf,
    pub(super) port: u16,
    running: Option<Running>,
}

impl Gmond {
    pub(super) fn start(folder: &Path) -> Gmond {
        let port = free_port();
        let config = folder.join(format!("gmond-{port}.conf"));
        let text = format!(
            "globals {{\n  daemonize = no\n  setuid = no\n  mute = no\n  deaf = no\n  host_dmax = 0\n  \
             cleanup_threshold = 300\n  send_metadata_interval = 1\n}}\ncluster {{ name = \"test\" }}\n\
             udp_send_channel {{ host = 127.0.0.1 port = {port} }}\n\
             udp_recv_channel {{ port = {port} bind = 127.0.0.1 }}\n\
             tcp_accept_channel {{ port = {port} bind = 127.0.0.1 }}\n\
             modules {{ module {{ name = \"core_metrics\" }} }}\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut gmond = Gmond { config, port, running: None };
        gmond.begin();
        gmond
    }

    /// Starts it, without what it knew.
    pub(super) fn begin(&mut self) {
        let mut command = Command::new("gmond");
        self.running = Some(Running::start(command.arg("-c").arg(&self.config), self.port));
    }

    pub(super) fn kill(&mut self) {
        self.running = None;
    }

    /// `gmetric` for another host: its address and name, a metric, and the seconds after which that is gone.
    pub(super) fn says(&self, host: &str, (name, value): (&str, f64), dmax: u32) {
        let told = Command::new("gmetric")
            .arg("-c")
            .arg(&self.config)
            .args(["-t", "double", "-n", name, "-v", &value.to_string()])
            .args(["-S", host, "-d", &dmax.to_string()])
            .status();
        assert!(told.unwrap().success());
    }
}

/// A node exporter with a folder of texts.
pub(super) struct Exporter {
    folder: PathBuf,
    pub(super) port: u16,
    running: Option<Running>,
}

impl Exporter {
    pub(super) fn start(folder: &Path) -> Exporter {
        let (port, folder) = (free_port(), folder.join("textfile"));
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new("prometheus-node-exporter");
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.arg(format!("--collector.textfile.directory={}", folder.display()));
        let running = Some(Running::start(&mut command, port));
        Exporter { folder, port, running }
    }

    /// The text of its folder: a metric with a label.
    pub(super) fn says(&self, name: &str, label: &str, values: &[(&str, f64)]) {
        let mut text = String::new();
        for (of, value) in values {
            writeln!(text, "{name}{{{label}=\"{of}\"}} {value}").unwrap();
        }
        // It reads no half of a file.
        let (new, file) = (self.folder.join("new"), self.folder.join("own.prom"));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    pub(super) fn kill(&mut self) {
        self.running = None;
    }
}
