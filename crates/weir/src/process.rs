//! The process as a whole: huge pages, the limit of open files, the user, signals.

use anyhow::Context;
use rustix::process::{Resource, Signal as Number, getrlimit, setrlimit};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Tells the kernel to use no transparent huge pages for this process and those that it starts. With them the
/// memory of each thread's stack and allocator grows in steps of 2 MiB, several times what is used. Call it
/// before there are threads.
pub(crate) fn refuse_huge_pages() {
    // Where that is forbidden, `warn_of_huge_pages` says so once logging has started.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Warns once that memory will grow in huge pages, where the kernel gives them to every process and this one
/// cannot refuse them.
pub(crate) fn warn_of_huge_pages() {
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let is_refused = rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(false);
    if enabled.contains("[always]") && !is_refused {
        tracing::warn!(
            "the system gives huge pages to every process, and Weir cannot refuse them: memory may grow \
             to several times \
             `[cache] memory`; write `madvise` to /sys/kernel/mm/transparent_hugepage/enabled"
        );
    }
}

/// Raises the limit of open files to the hard limit.
pub(crate) fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit of open files to the hard limit");
    }
}

/// Lets a write beyond the limit of a file's size (`RLIMIT_FSIZE`, `LimitFSIZE` of systemd) fail like one on
/// a full drive. By default its signal ends the process, with all requests.
pub(crate) fn survive_the_limit_of_file_size() {
    // A signal that was listened to once stays caught until the process ends, even if nobody listens any
    // more.
    let caught = Builder::new_current_thread().enable_io().build().and_then(|runtime| {
        let _inside = runtime.enter();
        signal(SignalKind::from_raw(Number::XFSZ.as_raw()))
    });
    if let Err(error) = caught {
        tracing::warn!(%error, "cannot catch SIGXFSZ: a limit of the size of files may end this process");
    }
}

/// Warns once that Weir does not need root.
pub(crate) fn warn_of_root() {
    if rustix::process::geteuid().is_root() {
        tracing::warn!(
            "running as root; Weir needs only a user of its own (CAP_NET_BIND_SERVICE for ports below 1024)"
        );
    }
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// SIGHUP.
    Reload,
    /// SIGUSR1.
    ReopenLogs,
    /// SIGUSR2.
    Upgrade,
    /// SIGTERM or SIGINT.
    End,
}

/// The signals that Weir listens to. It must be made inside a runtime.
pub(crate) struct Signals {
    hangup: Signal,
    user: Signal,
    other_user: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Signals> {
        let listen = |kind| signal(kind).context("cannot listen to signals");
        Ok(Signals {
            hangup: listen(SignalKind::hangup())?,
            user: listen(SignalKind::user_defined1())?,
            other_user: listen(SignalKind::user_defined2())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.hangup.recv() => Wish::Reload,
            _ = self.user.recv() => Wish::ReopenLogs,
            _ = self.other_user.recv() => Wish::Upgrade,
            _ = self.terminate.recv() => Wish::End,
            _ = self.interrupt.recv() => Wish::End,
        }
    }
}
