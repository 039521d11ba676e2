//! Whether another process still lives. It must not mistake a later process with the same number for it.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process that lived when this value was made. Nothing is known where the system does not say.
#[derive(Debug)]
pub(crate) struct Living(Option<OwnedFd>);

impl Living {
    /// Call it while the process lives.
    pub(crate) fn of(pid: u32) -> Living {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Living(pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()))
    }

    /// Ends the process at once. It may have ended, or be unknown to the system: then nothing happens.
    pub(crate) fn kill(&self) {
        if let Some(process) = &self.0 {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }

    /// Whether the process ends within that time, or has ended; false where that is not known. Blocks.
    pub(crate) fn ends_within(&self, patience: Duration) -> bool {
        let Some(process) = &self.0 else { return false };
        let timeout = Timespec::try_from(patience).ok();
        loop {
            // It can be read from once the process has ended, waited for or not.
            match poll(&mut [PollFd::new(process, PollFlags::IN)], timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                ready => return ready.is_ok_and(|count| count > 0),
            }
        }
    }
}
