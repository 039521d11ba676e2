//! A folder of files below a root, and a Weir that serves it.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use weir_testkit::{Client, Response, Setup, Weir};

use crate::server::setup;

/// A root that is filled before the Weir starts.
pub struct Root {
    pub setup: Setup,
    pub path: PathBuf,
}

impl Root {
    pub fn new() -> Root {
        let setup = setup();
        let path = setup.folder().join("www");
        std::fs::create_dir(&path).unwrap();
        Root { setup, path }
    }

    /// With a file.
    pub fn with(self, name: &str, content: impl AsRef<[u8]>) -> Root {
        write(&self.path, name, content);
        self
    }

    /// Serves it, with more lines of the site.
    pub fn start(self, site: &str) -> Weir {
        self.setup.run_config(&text(site, ""))
    }

    /// The same with whole tables.
    pub fn start_with(self, site: &str, more: &str) -> Weir {
        self.setup.run_config(&text(site, more))
    }
}

pub fn text(site: &str, more: &str) -> String {
    format!(
        "[admin]\nlisten = \"{{admin}}\"\n\n[[listen]]\naddress = \"{{listen}}\"\n{more}\n\n\
         [[site]]\nhosts = [\"*\"]\nroot = \"www\"\n{site}\n"
    )
}

/// Writes a file below a folder, with its folders.
pub fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Replaces a file by another one that is renamed to its name.
pub fn replace(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let beside = folder.join(format!("{name}.new"));
    std::fs::write(&beside, content).unwrap();
    std::fs::rename(beside, folder.join(name)).unwrap();
}

/// Writes over a file in place.
pub fn overwrite(folder: &Path, name: &str, content: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(folder.join(name)).unwrap();
    file.write_all_at(content, 0).unwrap();
}

/// The folder that a Weir serves.
pub fn www(weir: &Weir) -> PathBuf {
    weir.folder().join("www")
}

/// Asks with a request line as it stands.
pub fn raw(weir: &Weir, method: &str, target: &str, lines: &str) -> Response {
    let mut client = weir.client();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: www.example.com\r\n{lines}\r\n"));
    recv(&mut client, method).unwrap_or_else(|why| panic!("{method} {target}: {why}"))
}

fn recv(client: &mut Client, method: &str) -> Result<Response, weir_testkit::Trouble> {
    if method == "HEAD" { client.recv_head() } else { client.recv() }
}
