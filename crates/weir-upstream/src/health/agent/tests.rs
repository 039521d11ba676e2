//! The lines of agents: their words, what holds after them, what HAProxy makes of them, and agents on real
//! sockets.

mod haproxy;
mod heard;
mod words;
