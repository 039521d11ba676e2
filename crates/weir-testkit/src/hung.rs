//! A folder whose file system answers nothing: what opens, looks at or lists anything below it waits.
//!
//! It is a file system in user space that nobody serves, which needs the right to mount. Without it the
//! scenario is skipped with a message.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The calls that make it; nothing safe in Rust makes them. The file system lives as long as its device is
/// open: until the program's input ends.
const MOUNT: &str = "open(my $f, '+<', '/dev/fuse') or die $!; my ($s, $t, $k) = ('hung', $ARGV[0], 'fuse'); \
                     my $o = 'fd=' . fileno($f) . ',rootmode=40000,user_id=0,group_id=0,allow_other'; \
                     my %n = (x86_64 => 165, aarch64 => 40); my $n = $n{$ARGV[1]} or die 'another machine'; \
                     syscall($n, $s, $t, $k, 0, $o) == 0 or die $!; $| = 1; print qq(mounted\\n); <STDIN>;";

/// A file system that hangs until this is dropped. Then all that wait for it fail, and what lies below is
/// there again.
pub struct Hung {
    path: PathBuf,
    holder: Child,
}

impl Hung {
    /// Lets a folder hang. `None`, with a message on the standard error, if that cannot be done here.
    ///
    /// # Panics
    /// The folder cannot be made.
    pub fn over(path: &Path) -> Option<Hung> {
        std::fs::create_dir_all(path).unwrap();
        match hold(path) {
            Ok(holder) => Some(Hung { path: path.to_owned(), holder }),
            Err(why) => {
                // Written past the test harness, which would swallow it.
                let name = std::thread::current().name().unwrap_or("a scenario").to_owned();
                let _ = writeln!(std::io::stderr(), "skipped: {name}: no file system can hang here: {why}");
                None
            }
        }
    }
}

fn hold(path: &Path) -> Result<Child, String> {
    let mut command = Command::new("perl");
    command.args(["-e", MOUNT]).arg(path).arg(std::env::consts::ARCH);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut holder = command.spawn().map_err(|why| format!("perl: {why}"))?;
    let mut said = String::new();
    if let Some(out) = holder.stdout.take() {
        let _ = BufReader::new(out).read_line(&mut said);
    }
    if said.trim() == "mounted" {
        return Ok(holder);
    }
    let output = holder.wait_with_output().map_err(|why| why.to_string())?;
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

impl Drop for Hung {
    fn drop(&mut self) {
        // What waits for it ends, so that nothing keeps the mount.
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
