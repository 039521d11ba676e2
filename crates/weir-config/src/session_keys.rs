//! The file with the keys that seal Weir's own cookies. Must not know what they seal.

use std::{
    fmt, fs,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// The shortest key, in characters.
const KEY_CHARS_MIN: usize = 32;
/// The most keys: one seals, the others are on their way out.
const KEYS_MAX: usize = 8;
const FILE_BYTES_MAX: u64 = 16 << 10;

/// Why a file of keys is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeysFault {
    /// It cannot be read.
    Unreadable(String),
    /// Users other than owner and group may read or write it.
    Open(u32),
    /// It is longer than any list of keys.
    TooLong,
    /// It has no key.
    Empty,
    /// It has more than eight.
    TooMany(usize),
    /// The key on this line has fewer than 32 characters.
    Short(usize),
    /// What stands on this line has no chance in it: one character over and over.
    Uniform(usize),
    /// The key on this line stands there twice.
    Twice(usize),
    /// The line has a character that no key has: a space inside, or one that cannot be seen.
    Odd(usize),
}

impl fmt::Display for KeysFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeysFault::Unreadable(error) => write!(out, "{error}"),
            KeysFault::Open(mode) => {
                write!(out, "its mode is {mode:04o}: others could read or write the keys; chmod o-rwx it")
            }
            KeysFault::TooLong => write!(out, "it is longer than 16 KiB, which no list of keys is"),
            KeysFault::Empty => write!(out, "there is no key in it"),
            KeysFault::TooMany(count) => write!(out, "it has {count} keys; {KEYS_MAX} are the most"),
            KeysFault::Short(line) => {
                write!(out, "the key on its line {line} has fewer than {KEY_CHARS_MIN} characters")
            }
            KeysFault::Uniform(line) => write!(out, "the key on its line {line} is no work of chance"),
            KeysFault::Twice(line) => write!(out, "the key on its line {line} stands there twice"),
            KeysFault::Odd(line) => {
                write!(out, "its line {line} has a space or an unprintable character; a key has neither")
            }
        }
    }
}

/// The keys of a file, in the order of its lines. Empty lines and those that begin with `#` are none.
///
/// # Errors
/// Why the file is of no use.
pub fn read(path: &Path) -> Result<Vec<String>, KeysFault> {
    let unreadable = |error: io::Error| KeysFault::Unreadable(crate::check::io_words(&error));
    let file = fs::File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let mode = metadata.permissions().mode() & 0o7777;
    if !metadata.is_file() {
        return Err(KeysFault::Unreadable("this is no file".into()));
    }
    if mode & 0o007 != 0 {
        return Err(KeysFault::Open(mode));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(KeysFault::TooLong);
    }
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<String>, KeysFault> {
    let mut keys: Vec<String> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let (number, key) = (at + 1, line.trim());
        if key.is_empty() || key.starts_with('#') {
            continue;
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KeysFault::Odd(number));
        }
        if key.len() < KEY_CHARS_MIN {
            return Err(KeysFault::Short(number));
        }
        if key.bytes().all(|byte| byte == key.as_bytes()[0]) {
            return Err(KeysFault::Uniform(number));
        }
        if keys.iter().any(|known| known == key) {
            return Err(KeysFault::Twice(number));
        }
        keys.push(key.to_owned());
    }
    match keys.len() {
        0 => Err(KeysFault::Empty),
        1..=KEYS_MAX => Ok(keys),
        count => Err(KeysFault::TooMany(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<usize, KeysFault>) {
        assert_eq!(parse(text).map(|keys| keys.len()), expect, "{text:?}");
    }

    #[test]
    fn a_file_has_a_key_on_each_line() {
        let (one, two) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210+/=");
        check(&format!("{one}\n"), Ok(1));
        check(&format!("# since May\n{two}\r\n\n  {one}  \n"), Ok(2));
        check("", Err(KeysFault::Empty));
        check("# nothing\n", Err(KeysFault::Empty));
        check(&format!("{one}\n{}", &two[..31]), Err(KeysFault::Short(2)));
        check(&"a".repeat(40), Err(KeysFault::Uniform(1)));
        check(&format!("{one}\n{one}"), Err(KeysFault::Twice(2)));
        check(&format!("{one} {two}"), Err(KeysFault::Odd(1)));
        let many: String = (0..9).map(|number| format!("{number}{one}\n")).collect();
        check(&many, Err(KeysFault::TooMany(9)));
    }

    #[test]
    fn others_have_no_access_to_a_file_of_keys() {
        let path = std::env::temp_dir().join(format!("weir-session-keys-{}", std::process::id()));
        fs::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
        let of_mode = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read(&path).map(|keys| keys.len())
        };
        let modes = [0o600, 0o640, 0o644, 0o602].map(of_mode);
        fs::remove_file(&path).unwrap();
        assert_eq!(modes, [Ok(1), Ok(1), Err(KeysFault::Open(0o644)), Err(KeysFault::Open(0o602))]);
        assert_eq!(read(&path), Err(KeysFault::Unreadable("there is no such file".into())));
    }
}
