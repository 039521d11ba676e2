//! Pages and secrets from files, each file read once. Must not follow a change: a reload reads again.

use crate::check::io_words;
use bytes::Bytes;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// The most bytes of a page or secret.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A body with its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageContent {
    /// The value of Content-Type; empty: none.
    pub content_type: &'static str,
    /// The body.
    pub body: Bytes,
}

/// The files that were read.
#[derive(Default)]
pub(super) struct Contents(HashMap<PathBuf, Result<PageContent, String>>);

impl Contents {
    pub fn read(&mut self, path: &Path) -> Result<PageContent, String> {
        self.0.entry(path.to_owned()).or_insert_with(|| read(path)).clone()
    }
}

fn read(path: &Path) -> Result<PageContent, String> {
    let metadata = std::fs::metadata(path).map_err(|error| io_words(&error))?;
    if metadata.len() > FILE_BYTES_MAX {
        return Err("it is larger than 16 MiB: let an origin serve it".into());
    }
    let body = crate::files::read(path, FILE_BYTES_MAX).map_err(|error| io_words(&error))?;
    Ok(PageContent { content_type: content_type(path), body: Bytes::from(body) })
}

/// A text from the configuration.
pub(super) fn inline(text: &str) -> PageContent {
    let is_html = text.trim_start().starts_with('<');
    let content_type = if is_html { "text/html; charset=utf-8" } else { "text/plain; charset=utf-8" };
    PageContent { content_type, body: Bytes::copy_from_slice(text.as_bytes()) }
}

/// The media type for the ending of a file's name.
fn content_type(path: &Path) -> &'static str {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.as_deref() {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("txt") => "text/plain; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("xml") => "application/xml",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("ico") => "image/x-icon",
        Some("pdf") => "application/pdf",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    }
}
