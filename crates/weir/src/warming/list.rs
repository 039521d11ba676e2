//! Lists of URLs, a line each, in pieces that the API takes.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context, bail};
use weir_warm::sitemap::is_url;

/// The most URLs of a piece, and their bytes.
const PIECE_URLS_MAX: usize = 5000;
const PIECE_BYTES_MAX: usize = 512 << 10;
/// The longest line in bytes.
const LINE_BYTES_MAX: u64 = 8 << 10;

/// The URLs of the command line and of lists, in pieces that the API takes.
pub(crate) struct Pieces<'w> {
    urls: std::slice::Iter<'w, String>,
    lists: std::slice::Iter<'w, PathBuf>,
    open: Option<(Box<dyn BufRead>, PathBuf, u64)>,
    /// One that was too much for a piece.
    kept: Option<String>,
}

impl<'w> Pieces<'w> {
    /// Those of a command line, then those of the lists.
    pub(crate) fn of(urls: &'w [String], lists: &'w [PathBuf]) -> Pieces<'w> {
        Pieces { urls: urls.iter(), lists: lists.iter(), open: None, kept: None }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// A list cannot be read, or has a line that is no URL.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<Vec<String>>> {
        let (mut piece, mut bytes) = (Vec::new(), 0);
        while let Some(url) = self.url()? {
            bytes += url.len() + 4;
            if bytes > PIECE_BYTES_MAX || piece.len() >= PIECE_URLS_MAX {
                self.kept = Some(url);
                break;
            }
            piece.push(url);
        }
        Ok((!piece.is_empty()).then_some(piece))
    }

    fn url(&mut self) -> anyhow::Result<Option<String>> {
        if let Some(url) = self.kept.take() {
            return Ok(Some(url));
        }
        if let Some(url) = self.urls.next() {
            return if is_url(url) { Ok(Some(url.clone())) } else { bail!("{}", no_url(url)) };
        }
        loop {
            let Some((lines, path, number)) = &mut self.open else {
                let Some(path) = self.lists.next() else { return Ok(None) };
                let opened: Box<dyn BufRead> = match path.to_str() {
                    Some("-") => Box::new(BufReader::new(io::stdin())),
                    _ => Box::new(BufReader::new(
                        File::open(path).with_context(|| format!("cannot read {}", path.display()))?,
                    )),
                };
                self.open = Some((opened, path.clone(), 0));
                continue;
            };
            let mut line = String::new();
            let read = io::Read::take(&mut *lines, LINE_BYTES_MAX).read_line(&mut line);
            *number += 1;
            let place = || format!("{}, line {number}", path.display());
            match read.with_context(|| format!("cannot read {}", place()))? {
                0 => self.open = None,
                _ if line.len() as u64 >= LINE_BYTES_MAX => bail!("{}: a URL is too long", place()),
                _ => match line.trim() {
                    "" => {}
                    comment if comment.starts_with('#') => {}
                    url if !is_url(url) => bail!("{}: {}", place(), no_url(url)),
                    url => return Ok(Some(url.to_owned())),
                },
            }
        }
    }
}

/// What is said of a text that is no URL.
fn no_url(text: &str) -> String {
    let shown: String = text.chars().take(200).collect();
    let is_without_scheme = !text.contains("://") && is_url(&format!("https://{text}"));
    let hint = if is_without_scheme { format!("; write https://{shown}") } else { String::new() };
    format!("not a URL of http or https: {shown}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_sent_in_pieces_and_its_mistakes_have_a_place() {
        let folder = std::env::temp_dir().join(format!("weir-list-{:x}", fastrand::u64(..)));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let all: String = (0..12_000).map(|number| format!("http://a.test/{number}\r\n\n")).collect();
        let (urls, lists) = (
            vec!["http://a.test/first".to_owned()],
            vec![file("1", &all), file("2", "# the rest\nhttp://a.test/x\n")],
        );
        let mut pieces = Pieces::of(&urls, &lists);
        let sizes: Vec<usize> =
            std::iter::from_fn(|| pieces.next().unwrap()).map(|piece| piece.len()).collect();
        assert_eq!(sizes, [5000, 5000, 2002]);
        let wrong = vec![file("3", "http://a.test/\n\nhttp://a.test/ x\n")];
        let why = Pieces::of(&[], &wrong).next().unwrap_err().to_string();
        assert!(why.contains("line 3: not a URL"), "{why}");
        let bare = vec![file("5", "a.test/x\n")];
        let why = Pieces::of(&[], &bare).next().unwrap_err().to_string();
        assert!(
            why.ends_with("line 1: not a URL of http or https: a.test/x; write https://a.test/x"),
            "{why}"
        );
        let long = vec![file("4", &"x".repeat(9000))];
        assert!(Pieces::of(&[], &long).next().unwrap_err().to_string().contains("too long"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
