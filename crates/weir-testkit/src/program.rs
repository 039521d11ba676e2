//! Programs that a scenario makes of a line of shell.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program of these lines of shell. Another process writes the file: one that this process had open
/// to write would be busy for whatever another thread starts at that moment, and could not be run.
///
/// # Panics
/// It cannot be written.
pub fn program(path: &Path, lines: &str) {
    let write = "cat > \"$0\" && chmod 755 \"$0\"";
    let mut shell = Command::new("sh");
    let mut writer = shell.args(["-c", write]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    write!(writer.stdin.take().unwrap(), "#!/bin/sh\n{lines}\n").unwrap();
    assert!(writer.wait().unwrap().success(), "write {path:?}");
}
