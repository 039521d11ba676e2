//! The two system calls that Rust cannot check: a mapping, and pages that the kernel refers to.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

use memmap2::{Mmap, MmapOptions};
use rustix::fs::{SealFlags, fcntl_get_seals};
use rustix::io::Errno;
use rustix::pipe::{IoSliceRaw, SpliceFlags};

use crate::SealedPart;

/// Maps a file in memory whose bytes can never change.
///
/// # Errors
/// It is not sealed, or the kernel does not map it.
pub(crate) fn map_sealed(file: &File) -> io::Result<Mmap> {
    let seals = fcntl_get_seals(file)?;
    if !seals.contains(SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK) {
        return Err(Errno::PERM.into());
    }
    // SAFETY: the kernel has sealed the file against writing, growing and shrinking. So the mapped bytes are
    // there, and are the same, for as long as the mapping is. It is a private one, since kernels before 6.7
    // give a sealed file no other; without a right to write it has the same pages.
    unsafe { MmapOptions::new().populate().map_copy_read_only(file) }
}

/// Has a pipe refer to the pages of a part. Returns to how many bytes.
///
/// # Errors
/// [`Errno::AGAIN`] where the pipe is full; others where the system does not do this.
pub(crate) fn refer(pipe: BorrowedFd<'_>, part: SealedPart<'_>) -> Result<usize, Errno> {
    let slices = [IoSliceRaw::from_slice(part.bytes())];
    // SAFETY: the pages belong to sealed bytes, which no one can write. When they are given up before the
    // pipe has been read, the kernel keeps the pages that the pipe refers to.
    unsafe { rustix::pipe::vmsplice(pipe, &slices, SpliceFlags::NONBLOCK) }
}

#[cfg(test)]
mod tests;
