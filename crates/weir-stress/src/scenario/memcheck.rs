//! What a memory checker said about a server: valgrind's files in the scratch folder, and the reports of the
//! compilers' sanitizers in the server's output.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::ExitStatus;

/// The words before the server's command for `--valgrind`. `%p` becomes the id of each process.
pub(crate) const VALGRIND: [&str; 6] = [
    "valgrind",
    "--quiet",
    "--leak-check=full",
    "--show-leak-kinds=definite",
    "--trace-children=yes",
    "--log-file={scratch}/memcheck.%p.log",
];
/// What is read of a report.
const REPORT_BYTES_MAX: u64 = 16 << 20;
/// How many lines of a finding are kept.
const LINES_MAX: usize = 40;
/// The most findings.
const FINDINGS_MAX: usize = 100;

/// An error that a checker has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What it is, in a line.
    pub(crate) title: String,
    /// The checker's words, the title included.
    pub(crate) lines: Vec<String>,
}

/// The findings of a process that has ended. The files are removed: the next start has its own.
pub(crate) fn collect(scratch: &Path, log: &Path, status: Option<ExitStatus>) -> Vec<Finding> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(scratch).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("memcheck.") && name.ends_with(".log") {
            found.extend(of_valgrind(&read(&file)));
            let _ = std::fs::remove_file(&file);
        }
    }
    found.extend(of_sanitizers(&read(log)));
    found.truncate(FINDINGS_MAX);
    if let Some(signal) = status.and_then(|status| std::os::unix::process::ExitStatusExt::signal(&status))
        && signal != rustix::process::Signal::TERM.as_raw()
        && signal != rustix::process::Signal::KILL.as_raw()
    {
        let title = format!("ended by signal {signal}");
        found.push(Finding { lines: vec![title.clone()], title });
    }
    found
}

fn read(path: &Path) -> Vec<String> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let lines = BufReader::new(file.take(REPORT_BYTES_MAX)).split(b'\n').map_while(Result::ok);
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
}

/// Valgrind begins each line with the process, `==123==`; an empty one ends a finding.
fn of_valgrind(lines: &[String]) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    let mut open = false;
    for line in lines {
        let text = line.strip_prefix("==").and_then(|rest| rest.split_once("==")).map(|(_, text)| text);
        let Some(text) = text.map(str::trim_end) else { continue };
        if text.trim().is_empty() {
            open = false;
        } else if open {
            if let Some(last) = found.last_mut().filter(|last| last.lines.len() < LINES_MAX) {
                last.lines.push(text.trim_start().to_owned());
            }
        } else if !text.starts_with("  ") {
            open = true;
            let title = text.trim().to_owned();
            found.push(Finding { lines: vec![title.clone()], title });
        }
    }
    found
}

/// AddressSanitizer and its kin: `==123==ERROR: AddressSanitizer: …`, `WARNING: ThreadSanitizer: …`.
fn of_sanitizers(lines: &[String]) -> Vec<Finding> {
    let is_begin = |line: &str| {
        ["ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer", "MemorySanitizer:"]
            .iter()
            .any(|word| line.contains(word))
            || line.contains("runtime error:")
    };
    let begins = lines.iter().enumerate().filter(|(_, line)| is_begin(line));
    begins
        .map(|(at, line)| Finding {
            title: line.clone(),
            lines: lines[at..].iter().take(LINES_MAX).cloned().collect(),
        })
        .collect()
}
