//! A socket between two processes that keeps messages whole and carries descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::message::Message;

/// The most descriptors in one message; the kernel takes 253.
pub(crate) const SOCKETS_MAX: usize = 64;
/// The longest message in bytes. At most 80 KiB of a request are read ahead.
const MESSAGE_BYTES_MAX: usize = 192 << 10;
/// How long a message may wait for the other side to take those before it.
const SEND_TIME_MAX: Duration = Duration::from_secs(10);

/// One end.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
}

/// A received message.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) message: Message,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sockets: Vec<OwnedFd>,
}

/// What goes with a message.
struct Beside<'b> {
    bytes: &'b [u8],
    sockets: &'b [OwnedFd],
}

impl Link {
    /// Makes both ends; the second is for another process.
    pub(crate) fn pair() -> io::Result<(Link, OwnedFd)> {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Link::over(here)?, there))
    }

    /// Over a socket of another process.
    pub(crate) fn over(socket: OwnedFd) -> io::Result<Link> {
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_TIME_MAX))?;
        Ok(Link { socket })
    }

    /// Sends a message.
    pub(crate) fn say(&self, message: &Message) -> io::Result<()> {
        self.send(message, &[], &[])
    }

    /// As [`Link::say`], where that need not wait for the other side.
    pub(crate) fn say_now(&self, message: &Message) -> io::Result<()> {
        self.put(message, Beside { bytes: &[], sockets: &[] }, SendFlags::DONTWAIT)
    }

    /// Sends a message with bytes and descriptors.
    pub(crate) fn send(&self, message: &Message, bytes: &[u8], sockets: &[OwnedFd]) -> io::Result<()> {
        self.put(message, Beside { bytes, sockets }, SendFlags::empty())
    }

    /// A copy of this end, for another process.
    pub(crate) fn copy(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    fn put(&self, message: &Message, beside: Beside<'_>, flags: SendFlags) -> io::Result<()> {
        let Beside { bytes, sockets } = beside;
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        if line.len() + bytes.len() > MESSAGE_BYTES_MAX || sockets.len() > SOCKETS_MAX {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let borrowed: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !borrowed.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(&borrowed));
        }
        let flags = flags | SendFlags::NOSIGNAL;
        sendmsg(&self.socket, &[IoSlice::new(&line), IoSlice::new(bytes)], &mut beside, flags)?;
        Ok(())
    }

    /// Waits for a message, for that long or for ever; `None` when the other side has gone.
    pub(crate) fn receive(&self, patience: Option<Duration>) -> io::Result<Option<Received>> {
        set_socket_timeout(&self.socket, Timeout::Recv, patience)?;
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut was_reset = false;
        let received = loop {
            let mut into = [IoSliceMut::new(&mut buffer)];
            match recvmsg(&self.socket, &mut into, &mut beside, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                // The other side has gone without reading everything; what it sent before comes next.
                Err(rustix::io::Errno::CONNRESET) if !was_reset => was_reset = true,
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                other => break other?,
            }
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        let mut sockets = Vec::new();
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                sockets.extend(rights);
            }
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::other("a message was cut; is the limit of open files too low?"));
        }
        buffer.truncate(received.bytes);
        let end = buffer.iter().position(|byte| *byte == b'\n').unwrap_or(buffer.len());
        let message = serde_json::from_slice(&buffer[..end])?;
        buffer.drain(..buffer.len().min(end + 1));
        Ok(Some(Received { message, bytes: buffer, sockets }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn messages_stay_whole_with_their_bytes_and_sockets() {
        let (here, there) = Link::pair().unwrap();
        let there = Link::over(there).unwrap();
        let (mut client, server) = UnixStream::pair().unwrap();
        let connection = Message::Connection { peer: None, port: None, unix: true, tls: None };
        here.send(&connection, b"GET / \n HT", &[server.into()]).unwrap();
        here.say(&Message::Volumes).unwrap();
        let mut received = there.receive(None).unwrap().unwrap();
        assert_eq!((received.message, &received.bytes[..]), (connection, &b"GET / \n HT"[..]));
        let mut server = UnixStream::from(received.sockets.pop().unwrap());
        client.write_all(b"x").unwrap();
        let mut byte = [0];
        server.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        assert_eq!(there.receive(None).unwrap().unwrap().message, Message::Volumes);
        let late = there.receive(Some(Duration::from_millis(1))).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::WouldBlock);
        drop(here);
        assert!(there.receive(None).unwrap().is_none(), "the other side has gone");
    }

    #[test]
    fn what_was_said_before_the_other_side_went_is_heard() {
        let (here, there) = Link::pair().unwrap();
        let there = Link::over(there).unwrap();
        // That it reads nothing of this is an error of the socket.
        there.say(&Message::Ready).unwrap();
        here.say(&Message::Yours).unwrap();
        drop(here);
        assert_eq!(there.receive(None).unwrap().unwrap().message, Message::Yours);
        assert!(there.receive(None).unwrap().is_none());
    }

    #[test]
    fn what_is_too_long_is_refused_and_not_cut() {
        let (here, _there) = Link::pair().unwrap();
        let long = vec![0; MESSAGE_BYTES_MAX];
        assert!(here.send(&Message::Marks, &long, &[]).is_err());
        assert!(here.send(&Message::Marks, &long[..MESSAGE_BYTES_MAX - 100], &[]).is_ok());
    }
}
