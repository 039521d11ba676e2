//! Delivery: the bodies of responses. [`source`] says where the bytes come from; [`multipart`] puts several
//! parts into one body. It must not decide what is sent.

pub(crate) mod multipart;
pub(crate) mod source;
