//! Field blocks (RFC 7541): a writer of every form, right or wrong, and a strict reader.

/// A name and a value, as bytes.
pub type Field = (Vec<u8>, Vec<u8>);

/// Appends an integer with a prefix of `bits`, below the bits of `first` (RFC 7541 §5.1).
pub fn integer(out: &mut Vec<u8>, first: u8, bits: u32, mut value: usize) {
    let full = (1usize << bits) - 1;
    if value < full {
        return out.push(first | value as u8);
    }
    out.push(first | full as u8);
    value -= full;
    while value >= 128 {
        out.push((value % 128) as u8 | 128);
        value /= 128;
    }
    out.push(value as u8);
}

/// A field by its place in the tables (RFC 7541 §6.1).
pub fn indexed(place: usize) -> Vec<u8> {
    let mut out = Vec::new();
    integer(&mut out, 0x80, 7, place);
    out
}

/// A field as a literal that stays out of the table, without Huffman's code (RFC 7541 §6.2.2).
pub fn literal(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    spelled(0, name.as_ref(), value.as_ref())
}

/// A field as a literal that enters the table (RFC 7541 §6.2.1).
pub fn incremental(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    spelled(0x40, name.as_ref(), value.as_ref())
}

/// A change of the table's size (RFC 7541 §6.3).
pub fn table_size(bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    integer(&mut out, 0x20, 5, bytes);
    out
}

/// Fields as literals, in order.
pub fn literals<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: impl IntoIterator<Item = (N, V)>) -> Vec<u8> {
    fields.into_iter().flat_map(|(name, value)| literal(name, value)).collect()
}

fn spelled(first: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    for text in [name, value] {
        integer(&mut out, 0, 7, text.len());
        out.extend(text);
    }
    out
}

/// Reads field blocks of one connection, in their order.
pub struct Decoder {
    /// The newest first.
    table: std::collections::VecDeque<Field>,
    size: usize,
    size_max: usize,
    /// What the reader's settings allow.
    allowed: usize,
}

impl Decoder {
    /// A reader that allows the other side a table of `allowed` bytes.
    pub fn new(allowed: usize) -> Decoder {
        let size_max = allowed.min(4096);
        Decoder { table: Default::default(), size: 0, size_max, allowed: allowed.max(4096) }
    }

    /// The fields of a whole block.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(&mut self, block: &[u8]) -> Result<Vec<Field>, String> {
        let mut rest = block;
        let mut fields = Vec::new();
        while let Some(&first) = rest.first() {
            if first & 0x80 != 0 {
                let place = number(&mut rest, 7)?;
                fields.push(self.at(place)?);
            } else if first & 0xe0 == 0x20 {
                let size = number(&mut rest, 5)?;
                if size > self.allowed || !fields.is_empty() {
                    return Err(format!("a table of {size} bytes after {} fields", fields.len()));
                }
                self.size_max = size;
                self.shrink();
            } else {
                let enters = first & 0xc0 == 0x40;
                let place = number(&mut rest, if enters { 6 } else { 4 })?;
                let name = if place == 0 { text(&mut rest)? } else { self.at(place)?.0 };
                let field = (name, text(&mut rest)?);
                if enters {
                    self.size += field.0.len() + field.1.len() + 32;
                    self.table.push_front(field.clone());
                    self.shrink();
                }
                fields.push(field);
            }
        }
        Ok(fields)
    }

    fn at(&self, place: usize) -> Result<Field, String> {
        if let Some((name, value)) = place.checked_sub(1).and_then(|place| STATIC.get(place)) {
            return Ok((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
        let found = place.checked_sub(1 + STATIC.len()).and_then(|place| self.table.get(place));
        found.cloned().ok_or(format!("no field at {place}"))
    }

    fn shrink(&mut self) {
        while self.size > self.size_max {
            let Some((name, value)) = self.table.pop_back() else { return };
            self.size -= name.len() + value.len() + 32;
        }
    }
}

fn number(rest: &mut &[u8], bits: u32) -> Result<usize, String> {
    let full = (1usize << bits) - 1;
    let mut next = || {
        let (&byte, after) = rest.split_first().ok_or("a block ends within a number")?;
        *rest = after;
        Ok::<usize, String>(usize::from(byte))
    };
    let mut value = next()? & full;
    if value < full {
        return Ok(value);
    }
    for shift in [0, 7, 14, 21] {
        let byte = next()?;
        value += (byte & 127) << shift;
        if byte < 128 {
            return Ok(value);
        }
    }
    Err("a number of more than 28 bits".to_owned())
}

fn text(rest: &mut &[u8]) -> Result<Vec<u8>, String> {
    let in_code = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = number(rest, 7)?;
    let (text, after) = rest.split_at_checked(length).ok_or("a block ends within a text")?;
    *rest = after;
    if in_code { decoded(text) } else { Ok(text.to_vec()) }
}

/// The bytes of a text in Huffman's code (RFC 7541 §5.2).
fn decoded(text: &[u8]) -> Result<Vec<u8>, String> {
    let codes = codes();
    let (mut out, mut code, mut length) = (Vec::new(), 0u32, 0u8);
    for bit in text.iter().flat_map(|byte| (0..8).rev().map(move |bit| u32::from(byte >> bit & 1))) {
        (code, length) = (code << 1 | bit, length + 1);
        match codes.get(&(length, code)) {
            Some(&symbol) => {
                out.push(u8::try_from(symbol).map_err(|_| "the code's end within a text")?);
                (code, length) = (0, 0);
            }
            None if length >= 30 => return Err("no code".to_owned()),
            None => {}
        }
    }
    // The rest of the last byte is the beginning of the code's end: ones, and fewer than eight.
    if length > 7 || code != (1 << length) - 1 { Err("bad padding".to_owned()) } else { Ok(out) }
}

/// The code is canonical: the lengths say all.
fn codes() -> &'static std::collections::HashMap<(u8, u32), usize> {
    static CODES: std::sync::OnceLock<std::collections::HashMap<(u8, u32), usize>> =
        std::sync::OnceLock::new();
    CODES.get_or_init(|| {
        let mut symbols: Vec<usize> = (0..LENGTHS.len()).collect();
        symbols.sort_by_key(|&symbol| (LENGTHS[symbol], symbol));
        let (mut code, mut length) = (0u32, LENGTHS[symbols[0]]);
        let coded = symbols.into_iter().map(|symbol| {
            code <<= LENGTHS[symbol] - length;
            length = LENGTHS[symbol];
            code += 1;
            ((length, code - 1), symbol)
        });
        coded.collect()
    })
}

/// The length in bits of each byte's code and of the code's end (RFC 7541, Appendix B).
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// RFC 7541, Appendix A.
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""),
    ("cache-control", ""), ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""),
    ("content-length", ""), ("content-location", ""), ("content-range", ""), ("content-type", ""),
    ("cookie", ""), ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""),
    ("via", ""), ("www-authenticate", ""),
];
