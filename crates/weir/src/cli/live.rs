//! Streams of the running Weir, which go on across an upgrade.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use http::Method;
use weir_control::{Ask, AskError, Asked, Followed, Way, client};

use super::find::Find;

/// How long the head of an answer, and the next line, may take. Something comes every 15 s.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries to reach the process that has taken over.
const AGAIN_EVERY: Duration = Duration::from_millis(200);
/// How long these are made.
const AGAIN_FOR: Duration = Duration::from_secs(15);

/// Follows the stream at a path until `each` breaks. A stream that ends is asked for again: after an upgrade
/// the new process answers.
///
/// # Errors
/// It is refused, or no Weir answers for 15 s.
pub(super) fn follow(
    find: &Find,
    path: &str,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> anyhow::Result<()> {
    let way = find.way()?;
    let mut is_over = false;
    let mut patience = Patience::default();
    loop {
        let followed = once(&way, path, &mut |line| {
            patience = Patience::default();
            let goes_on = each(line);
            is_over = goes_on.is_break();
            goes_on
        });
        match followed {
            Ok(_) if is_over => return Ok(()),
            Ok(Followed::Refused(asked)) => anyhow::bail!(asked.refusal().unwrap_or_default()),
            Ok(Followed::Ended) => {
                writeln!(
                    io::stderr(),
                    "the stream has ended, as at an upgrade: what happens until it goes on \
                                        is not told"
                )?;
                patience.begin();
            }
            Err(error) => patience.wait(error)?,
        }
        std::thread::sleep(AGAIN_EVERY);
    }
}

/// Follows the stream at a path once.
pub(super) fn once(
    way: &Way,
    path: &str,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<Followed, AskError> {
    let ask = Ask { method: Method::GET, path: path.to_owned(), body: Vec::new(), patience: PATIENCE };
    client::follow(way, ask, each)
}

/// Asks, and again where a process that is replaced does not answer.
///
/// # Errors
/// None runs there or it may not be asked.
pub(super) fn ask_again(find: &Find, method: &Method, path: &str, body: &[u8]) -> anyhow::Result<Asked> {
    let mut patience = Patience::default();
    patience.begin();
    loop {
        match find.ask(method.clone(), path, body.to_vec()) {
            Ok(asked) => return Ok(asked),
            Err(error) => match error.downcast::<AskError>() {
                Ok(error) => patience.wait(error)?,
                Err(error) => return Err(error),
            },
        }
        std::thread::sleep(AGAIN_EVERY);
    }
}

/// Since when no Weir has answered that did before.
#[derive(Default)]
struct Patience(Option<Instant>);

impl Patience {
    /// There was one.
    #[allow(clippy::disallowed_methods, reason = "a command waits for a process")]
    fn begin(&mut self) {
        self.0.get_or_insert_with(Instant::now);
    }

    /// Whether to try again after an error.
    fn wait(&mut self, error: AskError) -> Result<(), AskError> {
        match self.0 {
            Some(since) if since.elapsed() < AGAIN_FOR => Ok(()),
            _ => Err(error),
        }
    }
}
