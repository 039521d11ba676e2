//! `weir log` as a process that goes on.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use weir_testkit::{Weir, until};

use crate::server::binary;

/// A `weir log` that runs, with the lines that it prints.
pub struct Log {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Log {
    /// Starts it with these arguments. It must print what is asked for below `/ready` of `host`.
    pub fn start(weir: &Weir, host: &str, args: &[&str]) -> Log {
        let mut command = Command::new(binary());
        command.arg("log").args(args).arg("--state").arg(weir.state());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (told, lines) = channel();
        let out = child.stdout.take().unwrap();
        let again = told.clone();
        let error = child.stderr.take().unwrap();
        thread::spawn(move || read(out).try_for_each(|line| told.send(line)));
        thread::spawn(move || read(error).try_for_each(|line| again.send(format!("stderr: {line}"))));
        let mut log = Log { child, lines, seen: Vec::new() };
        let mut asked = 0;
        until("the log is read", || {
            asked += 1;
            weir.client().get(host, &format!("/ready/{}/{asked}", log.child.id()), &[]);
            let has_ended = log.child.try_wait().unwrap();
            assert!(has_ended.is_none(), "weir log has ended: {:?}", log.lines.iter().collect::<Vec<_>>());
            log.has("/ready")
        });
        log
    }

    /// Whether a line has come with this text in it.
    pub fn has(&mut self, text: &str) -> bool {
        self.seen.extend(self.lines.try_iter());
        self.seen.iter().any(|line| line.contains(text))
    }

    /// The lines with this text in them, once there are so many.
    pub fn lines(&mut self, text: &str, count: usize) -> Vec<String> {
        let found = |log: &Log| -> Vec<String> {
            log.seen.iter().filter(|line| line.contains(text)).cloned().collect()
        };
        until(&format!("{count} lines with {text}"), || {
            self.has(text);
            found(self).len() >= count
        });
        found(self)
    }

    /// The lines until now.
    pub fn seen(&mut self) -> &[String] {
        self.seen.extend(self.lines.try_iter());
        &self.seen
    }

    /// The first line with this text in it, which comes.
    pub fn line(&mut self, text: &str) -> String {
        until(&format!("a line with {text}"), || self.has(text));
        self.seen.iter().find(|line| line.contains(text)).unwrap().clone()
    }
}

/// The lines of what is not all UTF-8.
fn read(from: impl std::io::Read + Send + 'static) -> impl Iterator<Item = String> {
    let bytes = BufReader::new(from).split(b'\n').map_while(Result::ok);
    bytes.map(|line| String::from_utf8_lossy(&line).into_owned())
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
