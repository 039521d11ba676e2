//! Why a volume cannot be opened.

use std::io;

use crate::format::superblock::NotAVolume;
use crate::settings::{SIZE_BYTES_MAX, SIZE_BYTES_MIN};

/// Why a volume cannot be opened. The volume was not changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The size is outside the limits.
    #[error("a volume has between {SIZE_BYTES_MIN} and {SIZE_BYTES_MAX} bytes, not {0}")]
    Size(u64),
    /// The superblock cannot be used.
    #[error("the volume cannot be used; move its folder away to begin again")]
    Superblock(#[source] NotAVolume),
    /// There are segments, but no superblock.
    #[error("the folder has segments and no superblock; move it away to begin again")]
    NoSuperblock,
    /// The drive failed.
    #[error("opening the volume: {act}")]
    Drive {
        /// What was tried.
        act: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

pub(crate) fn failed(act: &'static str) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::Drive { act, source }
}
