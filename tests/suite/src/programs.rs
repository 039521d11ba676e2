//! Which test programs there are: from what cargo printed when it built them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its package, and for a program of `tests/` its name: `weir-store`, `weir/it`.
    pub(crate) name: String,
    /// What cargo calls it: `-p weir --test it`.
    pub(crate) target: String,
    pub(crate) path: PathBuf,
    /// The folder of its package, in which cargo runs it.
    pub(crate) folder: PathBuf,
    pub(crate) tests: Vec<String>,
}

/// The programs of a file of cargo's messages, each with its tests.
pub(crate) fn read(messages: &Path) -> Result<Vec<Program>, String> {
    let text =
        std::fs::read_to_string(messages).map_err(|why| format!("read {}: {why}", messages.display()))?;
    let mut programs: Vec<Program> = text.lines().filter_map(program).collect();
    if programs.is_empty() {
        return Err(format!("{} names no test program", messages.display()));
    }
    for program in &mut programs {
        program.tests = list(program)?;
    }
    Ok(programs)
}

/// Leaves the tests that have one of the parts in their names; all, if there are no parts.
pub(crate) fn leave(programs: &mut [Program], parts: &[String]) {
    for program in programs {
        let name = |test: &str| format!("{}::{test}", program.name);
        program.tests.retain(|test| parts.is_empty() || parts.iter().any(|part| name(test).contains(part)));
    }
}

/// The program that a message is about, if it is about one.
fn program(message: &str) -> Option<Program> {
    let is_test = message.starts_with(r#"{"reason":"compiler-artifact""#)
        && message.contains(r#""test":true},"features""#);
    if !is_test {
        return None;
    }
    let path = PathBuf::from(text(message, r#""executable":""#)?);
    let manifest = PathBuf::from(text(message, r#""manifest_path":""#)?);
    let folder = manifest.parent()?.to_owned();
    let package = package(&text(message, r#""package_id":""#)?)?.to_owned();
    let target = message.split_once(r#""target":{"#)?.1;
    let name = text(target, r#""name":""#)?;
    let (name, target) = match text(target, r#""kind":[""#)?.as_str() {
        "test" => (format!("{package}/{name}"), format!("-p {package} --test {name}")),
        "bin" if name != package => (format!("{package}/{name}"), format!("-p {package} --bin {name}")),
        "bin" => (package.clone(), format!("-p {package} --bin {name}")),
        _ => (package.clone(), format!("-p {package} --lib")),
    };
    Some(Program { name, target, path, folder, tests: Vec::new() })
}

/// The name in cargo's id of a package: `path+file:///w/weir#0.1.0`, or
/// `path+file:///w/suite#weir-suite@0.1.0` where the folder has another name.
fn package(id: &str) -> Option<&str> {
    let (place, version) = id.rsplit_once('#')?;
    version.split_once('@').map(|(name, _)| name).or_else(|| place.rsplit('/').next())
}

/// The string behind `start`.
fn text(message: &str, start: &str) -> Option<String> {
    let rest = &message[message.find(start)? + start.len()..];
    let mut text = String::new();
    let mut letters = rest.chars();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => text.push(letters.next()?),
            letter => text.push(letter),
        }
    }
}

/// The names of a program's tests.
fn list(program: &Program) -> Result<Vec<String>, String> {
    let failed = |why: String| format!("list the tests of {}: {why}", program.path.display());
    let mut command = Command::new(&program.path);
    command.args(["--list", "--format", "terse"]).current_dir(&program.folder).stdin(Stdio::null());
    let output = command.output().map_err(|why| failed(why.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(ToOwned::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, name: &str, is_test: bool) -> String {
        format!(
            concat!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/crates/weir#0.1.0","#,
                r#""manifest_path":"/w/crates/weir/Cargo.toml","target":{{"kind":["{}"],"#,
                r#""crate_types":["bin"],"name":"{}","src_path":"/w/x.rs","edition":"2024","doc":true,"#,
                r#""doctest":false,"test":true}},"profile":{{"opt_level":"0","debuginfo":1,"#,
                r#""debug_assertions":true,"overflow_checks":true,"test":{}}},"features":["a"],"#,
                r#""filenames":["/w/t/x"],"executable":"/w/t/{}-1","fresh":true}}"#
            ),
            kind, name, is_test, name
        )
    }

    #[test]
    fn what_is_built_to_be_tested_is_a_program() {
        let named = |kind, name| {
            let program = program(&message(kind, name, true)).unwrap();
            assert_eq!(program.path, Path::new("/w/t").join(format!("{name}-1")));
            assert_eq!(program.folder, Path::new("/w/crates/weir"));
            (program.name, program.target)
        };
        let words = |name: &str, target: &str| (name.to_owned(), target.to_owned());
        assert_eq!(named("test", "it"), words("weir/it", "-p weir --test it"));
        assert_eq!(named("bin", "weir"), words("weir", "-p weir --bin weir"));
        assert_eq!(named("bin", "other"), words("weir/other", "-p weir --bin other"));
        assert_eq!(named("lib", "weir"), words("weir", "-p weir --lib"));
        assert_eq!(program(&message("bin", "weir", false)), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn a_package_has_a_name() {
        assert_eq!(package("path+file:///w/crates/weir#0.1.0"), Some("weir"));
        assert_eq!(package("path+file:///w/tests/suite#weir-suite@0.1.0"), Some("weir-suite"));
    }

    #[test]
    fn text_ends_at_its_quote() {
        assert_eq!(text(r#"{"a":"b\"c\\d","e":"f"}"#, r#""a":""#).as_deref(), Some(r#"b"c\d"#));
        assert_eq!(text(r#"{"a":"b"#, r#""a":""#), None);
    }
}
