//! Files that a configuration names, read whole. What is no file, like a device or a pipe, is refused without
//! waiting for it, and so is what is too large. It must not know what they hold.

use std::io::{self, Read};
use std::path::Path;

/// The bytes of a file.
///
/// # Errors
/// It cannot be read, is no file, or has more than `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("this is no file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it is larger than {} MiB", bytes_max >> 20)));
    }
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// As [`read`]; it is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8");
    String::from_utf8(read(path, bytes_max)?).map_err(no_text)
}
