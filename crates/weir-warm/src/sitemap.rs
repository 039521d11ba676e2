//! Reads sitemaps (sitemaps.org, protocol 0.9): lists of URLs, and indexes of further sitemaps; as XML or as
//! text with a URL a line; plain or as gzip. It is read as a stream. No entity is expanded but those that XML
//! itself defines, and whatever the document says, so many bytes, URLs and levels are read and no more.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

use crate::URL_BYTES_MAX;

/// The largest sitemap in bytes, after gzip: the protocol allows 50 MB.
pub const SITEMAP_BYTES_MAX: u64 = 64 << 20;
/// The most URLs of one sitemap, and the most sitemaps of an index: those of the protocol.
pub const ENTRIES_MAX: u64 = 50_000;
/// The longest tag, text or comment in bytes.
const PIECE_BYTES_MAX: u64 = 64 << 10;
/// How deep elements stand in each other at most: extensions for images and languages have two levels more.
const DEPTH_MAX: usize = 16;
/// What is read at once, in bytes.
const CHUNK_BYTES: usize = 16 << 10;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Why a sitemap cannot be read. What it has named before counts.
#[derive(Debug, thiserror::Error)]
pub enum SitemapError {
    /// It does not arrive whole.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// It goes on and on.
    #[error("has more than {} MiB", SITEMAP_BYTES_MAX >> 20)]
    Huge,
    /// It has too many entries.
    #[error("has more than {ENTRIES_MAX} entries; divide it, and name the parts in an index")]
    Long,
    /// A tag or text of it is too long.
    #[error("has a piece of more than {} KiB at byte {at}", PIECE_BYTES_MAX >> 10)]
    LongPiece {
        /// Where.
        at: u64,
    },
    /// It is neither XML nor text, or has an entity of its own.
    #[error("is malformed at byte {at}: {why}")]
    Malformed {
        /// Where.
        at: u64,
        /// Why.
        why: String,
    },
    /// It is XML of something else.
    #[error("is no sitemap, but `{0}`")]
    Other(String),
    /// The receiver of the entries takes no more.
    #[error("{0}")]
    Refused(String),
}

/// An entry of a sitemap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A page.
    Url(String),
    /// A further sitemap.
    Sitemap(String),
}

/// Reads a sitemap, and gives each entry to `each`.
///
/// # Errors
/// It cannot be read to its end, or `each` takes no more and says why.
pub fn read(from: impl Read, each: &mut dyn FnMut(Entry) -> Result<(), String>) -> Result<(), SitemapError> {
    let (first, whole) = begun(from).map_err(SitemapError::Read)?;
    match first == GZIP {
        true => document(BufReader::with_capacity(CHUNK_BYTES, MultiGzDecoder::new(whole)), each),
        false => document(whole, each),
    }
}

/// The first two bytes of a stream, and the stream with them.
fn begun(mut from: impl Read) -> io::Result<(Vec<u8>, impl BufRead)> {
    let mut first = Vec::with_capacity(GZIP.len());
    (&mut from).take(GZIP.len() as u64).read_to_end(&mut first)?;
    let whole = io::Cursor::new(first.clone()).chain(from);
    Ok((first, BufReader::with_capacity(CHUNK_BYTES, whole)))
}

fn document(
    from: impl BufRead,
    each: &mut dyn FnMut(Entry) -> Result<(), String>,
) -> Result<(), SitemapError> {
    let mut input = Input { inner: from, left_bytes: SITEMAP_BYTES_MAX, piece_left: PIECE_BYTES_MAX };
    let mut entries = Entries { count: 0, each };
    let first = first_letter(&mut input)?;
    if first == Some(b'<') { xml(input, &mut entries) } else { text(input, &mut entries) }
}

/// The first byte behind blanks and a byte order mark.
fn first_letter(input: &mut Input<impl BufRead>) -> Result<Option<u8>, SitemapError> {
    loop {
        let fault = |input: &Input<_>, error| input.fault(error, 0);
        let bytes = match input.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) => return Err(fault(input, error)),
        };
        let blank = |byte: &&u8| byte.is_ascii_whitespace() || MARK.contains(byte);
        let (blanks, all) = (bytes.iter().take_while(blank).count(), bytes.len());
        let first = bytes.get(blanks).copied();
        input.consume(blanks);
        if first.is_some() || all == 0 {
            return Ok(first);
        }
    }
}

/// A URL a line.
fn text(mut input: Input<impl BufRead>, entries: &mut Entries<'_>) -> Result<(), SitemapError> {
    let (mut at, mut line) = (0, Vec::new());
    loop {
        line.clear();
        input.piece_left = PIECE_BYTES_MAX;
        let read = match input.read_until(b'\n', &mut line) {
            Ok(0) => return Ok(()),
            Ok(read) => read as u64,
            Err(error) => return Err(input.fault(error, at)),
        };
        at += read;
        let url = std::str::from_utf8(&line)
            .map_err(|_| SitemapError::Malformed { at, why: "this is neither XML nor text".to_owned() })?;
        match url.trim() {
            "" => {}
            url => entries.add(Entry::Url(url.to_owned()))?,
        }
    }
}

fn xml(input: Input<impl BufRead>, entries: &mut Entries<'_>) -> Result<(), SitemapError> {
    let mut reader = Reader::from_reader(input);
    reader.config_mut().check_end_names = true;
    let (mut buffer, mut walk) = (Vec::new(), Walk::default());
    loop {
        buffer.clear();
        reader.get_mut().piece_left = PIECE_BYTES_MAX;
        let event = reader.read_event_into(&mut buffer);
        let at = reader.buffer_position();
        let malformed = |why: String| SitemapError::Malformed { at, why };
        match event {
            Ok(Event::Start(tag)) => walk.open(tag.local_name().as_ref(), at)?,
            Ok(Event::Empty(tag)) => {
                walk.open(tag.local_name().as_ref(), at)?;
                walk.close(entries)?;
            }
            Ok(Event::End(_)) => walk.close(entries)?,
            Ok(Event::Text(text)) => walk.text(&text.xml10_content(), at)?,
            Ok(Event::CData(text)) => walk.text(&text, at)?,
            Ok(Event::GeneralRef(name)) => walk.text(&resolved(&name).map_err(malformed)?, at)?,
            Ok(Event::Eof) if walk.form.is_some() && walk.depth == 0 => return Ok(()),
            Ok(Event::Eof) => return Err(malformed("the document ends in the middle".to_owned())),
            Ok(_) => {}
            Err(error) => return Err(fault(&reader, error, at)),
        }
    }
}

fn fault<R: BufRead>(reader: &Reader<Input<R>>, error: quick_xml::Error, at: u64) -> SitemapError {
    match error {
        quick_xml::Error::Io(error) => {
            let again = io::Error::new(error.kind(), error.to_string());
            reader.get_ref().fault(again, at)
        }
        error => SitemapError::Malformed { at: reader.error_position(), why: shown(&error.to_string()) },
    }
}

/// What a reference stands for: a character, or one of the five entities of XML.
fn resolved(name: &BytesRef<'_>) -> Result<String, String> {
    match name.resolve_char_ref() {
        Ok(Some(letter)) => return Ok(letter.to_string()),
        Ok(None) => {}
        Err(error) => return Err(shown(&error.to_string())),
    }
    let known = quick_xml::escape::resolve_predefined_entity(name);
    known.map(str::to_owned).ok_or_else(|| format!("the entity `{}` is not one of XML", shown(name)))
}

/// Foreign text for a message.
fn shown(text: &str) -> String {
    text.chars().take(120).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// What the document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Urls,
    Index,
}

/// Where in the document the reader is.
#[derive(Default)]
struct Walk {
    form: Option<Form>,
    depth: usize,
    /// Whether an entry is open: `url` or `sitemap`.
    is_in_entry: bool,
    /// The text of `loc`, while that is open.
    location: Option<String>,
}

impl Walk {
    fn open(&mut self, name: &str, at: u64) -> Result<(), SitemapError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let why = "elements stand too deep in each other".to_owned();
            return Err(SitemapError::Malformed { at, why });
        }
        match (self.depth, name, self.form) {
            (1, "urlset", None) => self.form = Some(Form::Urls),
            (1, "sitemapindex", None) => self.form = Some(Form::Index),
            (1, other, _) => return Err(SitemapError::Other(shown(other))),
            (2, "url", Some(Form::Urls)) | (2, "sitemap", Some(Form::Index)) => self.is_in_entry = true,
            (3, "loc", _) if self.is_in_entry => self.location = Some(String::new()),
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str, at: u64) -> Result<(), SitemapError> {
        let Some(location) = &mut self.location else { return Ok(()) };
        location.push_str(text);
        if location.len() > PIECE_BYTES_MAX as usize {
            return Err(SitemapError::LongPiece { at });
        }
        Ok(())
    }

    fn close(&mut self, entries: &mut Entries<'_>) -> Result<(), SitemapError> {
        if self.depth == 2 {
            self.is_in_entry = false;
        }
        // quick-xml refuses an end without its start.
        self.depth = self.depth.saturating_sub(1);
        let Some(location) = self.location.take_if(|_| self.depth == 2) else { return Ok(()) };
        match (location.trim(), self.form) {
            ("", _) => Ok(()),
            (url, Some(Form::Index)) => entries.add(Entry::Sitemap(url.to_owned())),
            (url, _) => entries.add(Entry::Url(url.to_owned())),
        }
    }
}

/// Where the entries go.
struct Entries<'e> {
    count: u64,
    each: &'e mut dyn FnMut(Entry) -> Result<(), String>,
}

impl Entries<'_> {
    fn add(&mut self, entry: Entry) -> Result<(), SitemapError> {
        self.count += 1;
        if self.count > ENTRIES_MAX {
            return Err(SitemapError::Long);
        }
        (self.each)(entry).map_err(SitemapError::Refused)
    }
}

/// The bytes of a document, no more than may come.
struct Input<R> {
    inner: R,
    left_bytes: u64,
    /// What the piece that is being read may still have.
    piece_left: u64,
}

impl<R> Input<R> {
    fn fault(&self, error: io::Error, at: u64) -> SitemapError {
        match error.kind() {
            io::ErrorKind::FileTooLarge if self.left_bytes == 0 => SitemapError::Huge,
            io::ErrorKind::FileTooLarge => SitemapError::LongPiece { at },
            _ => SitemapError::Read(error),
        }
    }
}

impl<R: BufRead> Read for Input<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let count = bytes.len().min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Input<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let most = self.left_bytes.min(self.piece_left);
        let bytes = self.inner.fill_buf()?;
        if bytes.is_empty() {
            return Ok(bytes);
        }
        if most == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let count = bytes.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(&bytes[..count])
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
        self.left_bytes -= count as u64;
        self.piece_left = self.piece_left.saturating_sub(count as u64);
    }
}

/// A URL without its fragment, which is never sent (RFC 9110 §4.2.5).
pub fn without_fragment(url: &str) -> &str {
    url.split_once('#').map_or(url, |(sent, _)| sent)
}

/// Whether a text can be a URL of a list: `http` or `https`, not too long, without blanks and controls.
pub fn is_url(text: &str) -> bool {
    let begins = |scheme: &str| text.get(..scheme.len()).is_some_and(|own| own.eq_ignore_ascii_case(scheme));
    (begins("http://") || begins("https://"))
        && text.len() <= URL_BYTES_MAX
        && !text.contains(|letter: char| letter.is_control() || letter.is_whitespace())
}

#[cfg(test)]
mod tests;
