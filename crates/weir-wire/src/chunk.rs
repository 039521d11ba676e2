//! The line before a chunk (RFC 9112 section 7.1): its size and extensions. The extensions are checked and
//! dropped.

use crate::fault::Fault;
use crate::syntax::{is_ows, is_tchar};

/// The most hex digits of a size, leading zeros included. 16 could name more than a file can hold.
const SIZE_DIGITS_MAX: usize = 16;

/// The size of a chunk, and how many bytes of its line were extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkLine {
    pub(crate) size: u64,
    pub(crate) extension_bytes: usize,
}

/// Reads a chunk's line without its CRLF.
pub(crate) fn parse(line: &[u8]) -> Result<ChunkLine, Fault> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if digits == 0 || digits > SIZE_DIGITS_MAX {
        return Err(Fault::ChunkSize);
    }
    let (digits, extensions) = line.split_at(digits);
    let mut size = 0_u64;
    for digit in digits {
        let value = (*digit as char).to_digit(16).ok_or(Fault::ChunkSize)?;
        size = (size << 4) | u64::from(value);
    }
    if i64::try_from(size).is_err() {
        return Err(Fault::ChunkSize);
    }
    check_extensions(extensions)?;
    Ok(ChunkLine { size, extension_bytes: extensions.len() })
}

/// RFC 9112 section 7.1.1: `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`. Whitespace at the
/// end of the line is refused.
fn check_extensions(mut rest: &[u8]) -> Result<(), Fault> {
    if rest.first().is_some_and(|byte| !is_ows(*byte) && *byte != b';') {
        return Err(Fault::ChunkSize);
    }
    while !rest.is_empty() {
        rest = skip_ows(rest).strip_prefix(b";").ok_or(Fault::ChunkExtension)?;
        rest = skip_token(skip_ows(rest))?;
        let Some(value) = skip_ows(rest).strip_prefix(b"=") else { continue };
        let value = skip_ows(value);
        rest = if value.first() == Some(&b'"') { skip_quoted(&value[1..])? } else { skip_token(value)? };
    }
    Ok(())
}

fn skip_ows(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|byte| is_ows(**byte)).count();
    &bytes[blanks..]
}

fn skip_token(bytes: &[u8]) -> Result<&[u8], Fault> {
    match bytes.iter().take_while(|byte| is_tchar(**byte)).count() {
        0 => Err(Fault::ChunkExtension),
        length => Ok(&bytes[length..]),
    }
}

/// RFC 9110 section 5.6.4, from behind the opening quote.
fn skip_quoted(mut bytes: &[u8]) -> Result<&[u8], Fault> {
    loop {
        bytes = match bytes {
            [b'"', rest @ ..] => return Ok(rest),
            [b'\\', quoted, rest @ ..] if is_text(*quoted) => rest,
            [byte, rest @ ..] if *byte != b'\\' && is_text(*byte) => rest,
            _ => return Err(Fault::ChunkExtension),
        };
    }
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}
