//! Asks the running Weir again and again for the screen of `weir top`, on a thread of its own, and tells it
//! of signals. It must not touch the terminal.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use http::Method;
use tokio::signal::unix::{SignalKind, signal};
use weir_control::{Ask, Top, TopWanted, Way, client};

/// Between two answers.
const AGAIN_EVERY: Duration = Duration::from_secs(1);
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the screen is told.
pub(super) enum Told {
    /// An answer.
    Top(Box<Top>),
    /// There is none, and why.
    Silence(String),
    /// A signal asks the program to end.
    End,
}

/// The screen's end.
pub(super) struct Asking {
    pub(super) told: Receiver<Told>,
    wanted: Sender<TopWanted>,
}

impl Asking {
    /// Begins to ask, and to listen for signals.
    ///
    /// # Errors
    /// When a thread cannot be started or signals cannot be heard.
    pub(super) fn begin(way: Way, first: TopWanted) -> io::Result<Asking> {
        let (tell, told) = channel();
        let (wanted, wants) = channel();
        hear_signals(tell.clone())?;
        thread::Builder::new().name("weir-ask".to_owned()).spawn(move || ask(&way, first, &wants, &tell))?;
        Ok(Asking { told, wanted })
    }

    /// Asks for something else, at once.
    pub(super) fn want(&self, wanted: &TopWanted) {
        // The thread lives as long as this; it ends early only by a panic, which the screen sees.
        let _ = self.wanted.send(wanted.clone());
    }
}

/// One answer.
pub(super) fn once(way: &Way, wanted: &TopWanted) -> Result<Top, String> {
    let ask = Ask { method: Method::GET, path: wanted.write(), body: Vec::new(), patience: PATIENCE };
    let asked = client::ask(way, ask).map_err(|error| error.to_string())?;
    match asked.refusal() {
        Some(refusal) => Err(refusal),
        None => serde_json::from_slice(&asked.body).map_err(|error| {
            format!("cannot read the running Weir's answer ({error}); is it of another version?")
        }),
    }
}

fn ask(way: &Way, mut wanted: TopWanted, wants: &Receiver<TopWanted>, tell: &Sender<Told>) {
    loop {
        let told = match once(way, &wanted) {
            Ok(top) => Told::Top(Box::new(top)),
            Err(why) => Told::Silence(why),
        };
        if tell.send(told).is_err() {
            return;
        }
        match wants.recv_timeout(AGAIN_EVERY) {
            Ok(other) => wanted = wants.try_iter().last().unwrap_or(other),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Tells of the signals that end a program.
fn hear_signals(tell: Sender<Told>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    drop(entered);
    thread::Builder::new().name("weir-signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupted.recv() => {}
                _ = terminated.recv() => {}
                _ = hung_up.recv() => {}
            }
        });
        let _ = tell.send(Told::End);
    })?;
    Ok(())
}
