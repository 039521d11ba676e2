//! How bytes leave for a client. It must not know what they mean.

/// How the bytes of a response leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As they are, over a socket: the kernel can send sealed ones by itself.
    Plain,
    /// Encrypted, in frames, or in parts.
    Other,
}
