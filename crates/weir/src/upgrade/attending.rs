//! What this process does for those before it: it takes their connections and marks, leaves free what they
//! hold of the memory, and opens the volumes once none of them has these.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::before::Old;
use super::link::{Link, Received};
use super::message::Message;
use super::new::{Moved, mark};
use crate::wire_up::Server;

/// Between two looks at a process that says nothing.
const LOOK: Duration = Duration::from_millis(250);

impl Server {
    /// Takes care of a process before this one, on a thread of its own, until it has ended.
    pub(crate) fn admit(self: &Arc<Server>, old: Old) {
        let link = Arc::clone(&old.link);
        let number = self.before.add(old);
        self.settle_memory();
        self.attend(number, link);
    }

    /// Has the process that takes over attend all those before this one.
    pub(super) fn hand_on(self: &Arc<Server>, to: &Link) {
        for (number, link) in self.before.hand_on(to) {
            self.attend(number, link);
        }
        if self.before.is_empty() {
            self.edge.store().leave_to_others(0);
        }
    }

    fn attend(self: &Arc<Server>, number: u64, link: Arc<Link>) {
        self.before.set_attended(number, true);
        let server = Arc::clone(self);
        let attend = move || {
            let is_over = server.read_of(number, &link);
            server.before.set_attended(number, false);
            if is_over {
                server.forget(number);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("weir-old-link".to_owned()).spawn(attend) {
            tracing::error!(%error, "cannot start a thread for what an old process still has; it ends");
            // Without its link it ends by itself.
            self.forget(number);
        }
    }

    /// Reads what comes from an old process until it has ended; false where this process is left before.
    fn read_of(self: &Arc<Server>, number: u64, link: &Link) -> bool {
        while !self.before.is_left() {
            match link.receive(Some(LOOK)) {
                Ok(Some(received)) => self.heed(number, link, received),
                Ok(None) => return true,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => self.tend_old(),
                    io::ErrorKind::InvalidData | io::ErrorKind::Other => {
                        tracing::error!(%error, "an old process has said something that is lost");
                    }
                    _ => {
                        tracing::error!(%error, "cannot read an old process's messages");
                        return true;
                    }
                },
            }
        }
        false
    }

    fn heed(self: &Arc<Server>, number: u64, link: &Link, received: Received) {
        let Received { message, bytes, mut sockets } = received;
        match message {
            Message::Connection { peer, unix, port, tls } => {
                let Some(socket) = sockets.pop() else { return };
                self.adopt_of(socket, Moved { peer, unix, port, tls, input: bytes });
            }
            Message::Marks => {
                let failure = mark(self, &bytes).err();
                if let Err(error) = link.say(&Message::Taken { failure }) {
                    tracing::warn!(%error, "cannot tell an old process that its marks are durable");
                }
            }
            Message::Volumes => {
                self.before.with(number, |old| old.has_volumes = false);
                self.take_free_volumes();
            }
            Message::Holds(holds) => {
                self.before.with(number, |old| old.note(holds));
                self.tend_old();
            }
            Message::Before { pid, level, since_ms, has_volumes, is_told, holds } => {
                let Some(Ok(link)) = sockets.pop().map(Link::over) else { return };
                let mut old = Old::new(pid, link, level).since(since_ms);
                (old.has_volumes, old.is_told) = (has_volumes, is_told);
                holds.into_iter().for_each(|holds| old.note(holds));
                self.admit(old);
            }
            other => tracing::warn!(?other, "an old process said something unexpected"),
        }
    }

    /// What follows from what the old processes hold, and from the time.
    fn tend_old(&self) {
        self.before.tend(self.edge.store().limit_bytes(), self.patience());
        self.settle_memory();
    }

    /// Leaves free what the others hold.
    fn settle_memory(&self) {
        if !self.edge.has_left() {
            let store = self.edge.store();
            self.before.settle(store.limit_bytes(), |bytes| store.leave_to_others(bytes));
        }
    }

    /// An old process has ended.
    fn forget(&self, number: u64) {
        let Some((pid, is_last)) = self.before.remove(number) else { return };
        self.settle_memory();
        // Also where it could not say that it has closed them.
        self.take_free_volumes();
        if is_last {
            self.edge.own_content();
        }
        tracing::info!(pid, "the old process has ended");
    }

    /// Opens the volumes once no old process has them.
    fn take_free_volumes(&self) {
        if !self.before.has_volumes() && !self.edge.has_left() {
            self.take_volumes();
        }
    }
}
