//! One version of one file, and what a path leads to. They never change; a changed file is another version.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use bytes::Bytes;
use http::HeaderMap;
use weir_body::PrintedSlot;
use weir_policy::{Accepted, Coding, Stored};
use weir_sealed::Sealed;

use crate::hot::Charge;
use crate::open::Place;
use crate::stamp::{Age, Stamp};

/// A version of a file.
#[derive(Debug)]
pub struct File {
    pub(crate) stamp: Stamp,
    pub(crate) age: Age,
    pub(crate) content: Content,
    /// Status, fields and validators, as conditions and ranges read them.
    pub stored: Stored,
    /// The head as the edge printed it last.
    pub printed: PrintedSlot,
    /// Its share of the memory for hot files.
    pub(crate) _charge: Option<Charge>,
    /// Its place among the open files, where its bytes are in the file itself.
    pub(crate) place: Option<Place>,
}

/// Where a version's bytes are.
#[derive(Debug)]
pub(crate) enum Content {
    /// In memory.
    Memory(Bytes),
    /// In memory that nobody can change: the kernel sends it without a copy.
    Sealed(Sealed),
    /// In the file itself.
    Open(OwnedFd),
}

impl Content {
    /// The bytes, or the file that has them.
    pub(crate) fn at_hand(&self) -> Result<&Bytes, &OwnedFd> {
        match self {
            Content::Memory(bytes) => Ok(bytes),
            Content::Sealed(sealed) => Ok(sealed.bytes()),
            Content::Open(fd) => Err(fd),
        }
    }
}

impl File {
    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        self.stamp.length
    }
}

/// What a path leads to: a file, and its precompressed siblings.
#[derive(Debug)]
pub struct Found {
    pub(crate) plain: Arc<File>,
    pub(crate) siblings: Vec<(Coding, Arc<File>)>,
    /// The names below the root.
    pub(crate) names: Box<[u8]>,
    /// When it was last seen unchanged, in milliseconds since the process's first look.
    pub(crate) checked_ms: AtomicU64,
    /// Whether it was asked for since eviction passed it.
    pub(crate) is_used: AtomicBool,
}

impl Found {
    /// The file itself.
    pub fn plain(&self) -> &Arc<File> {
        &self.plain
    }

    /// The file, or the sibling that a request with these fields gets in its place.
    pub fn chosen_by(&self, request: &HeaderMap) -> &Arc<File> {
        if self.siblings.is_empty() {
            return &self.plain;
        }
        let coding = Accepted::read(request).choose(self.siblings.iter().map(|(coding, _)| *coding));
        let sibling = self.siblings.iter().find(|(own, _)| Some(*own) == coding);
        sibling.map_or(&self.plain, |(_, file)| file)
    }

    /// Its names below the root, with a slash between them.
    pub fn names(&self) -> &[u8] {
        &self.names
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<File>> {
        std::iter::once(&self.plain).chain(self.siblings.iter().map(|(_, file)| file))
    }
}
