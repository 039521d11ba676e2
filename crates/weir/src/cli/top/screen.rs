//! The screen of `weir top`: what is drawn, and which key does what. However the program ends, the terminal
//! is as it was: `Restored` sees to it, and the hook for panics that `ratatui` sets. It must not ask Weir
//! anything.

use std::process::ExitCode;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use anyhow::Context;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};
use weir_control::{Top, TopWanted};
use weir_observe::{TopBy, TopOrder, TopWindow};

use super::asking::{self, Asking, Told};
use super::terminal;
use super::text;
use crate::cli::find::Find;
use crate::print::plain;

/// How long a key is waited for before answers are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Rows that are asked for.
const ROWS: usize = 100;
/// Lines of the list that are shown even where that hides what is above it.
const ROWS_MIN: u16 = 5;
/// The last line.
const KEYS: &str = "u c s o: list   a m b n: order   w: minute or hour   up, down   ?: help   q: quit";
/// What `?` shows.
const HELP: &str = "\
u  URLs           a  by requests
c  clients        m  by misses
s  sites          b  by bytes
o  origins        n  by what was not stored, with the reason
Tab  the next list           w  the last minute, or the last hour
up, down, Page Up, Page Down, Home: move in the list
?  this, and back            q, Esc, Ctrl-C  quit

The lists are estimates from samples: in 19 of 20 cases the truth is within ± of what is shown.
\"exact\" says that all were counted. The table of outcomes is always exact.
\"now\" is the last five seconds. \"half below\" and \"99 % below\" are times to the first byte.
Origin offload is the share of the bytes for clients that no origin had to send for it.";

/// Shows the screen until it is left.
///
/// # Errors
/// When no Weir answers at the start, or the terminal does not.
pub(super) fn run(find: &Find, wanted: TopWanted) -> anyhow::Result<ExitCode> {
    let way = find.way()?;
    let wanted = TopWanted { limit: ROWS, ..wanted };
    let top = asking::once(&way, &wanted).map_err(|why| anyhow::anyhow!(plain(&why)))?;
    let asking = Asking::begin(way, wanted.clone())?;
    let mut screen = Screen { wanted, top, notice: Notice::None, view: View::List, first: 0 };
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let _restored = Restored;
    screen.run(&mut terminal, &asking)?;
    Ok(ExitCode::SUCCESS)
}

/// Puts the terminal back when it is dropped.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        // Where the terminal has gone there is nothing to put back.
        let _ = ratatui::try_restore();
    }
}

/// What is in the lower part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    List,
    Help,
}

/// What stands in the first line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Notice {
    /// The heading.
    None,
    /// Why there is nothing new.
    Silence(String),
    /// Another process answers; for so many answers more.
    Changed(String, u32),
}

/// For how many answers the screen says that another process has taken over.
const CHANGED_FOR: u32 = 10;

/// Whether the screen goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    On,
    Changed,
    Out,
}

struct Screen {
    wanted: TopWanted,
    top: Top,
    notice: Notice,
    view: View,
    /// The row that is shown first.
    first: usize,
}

impl Screen {
    fn run(&mut self, terminal: &mut DefaultTerminal, asking: &Asking) -> anyhow::Result<()> {
        loop {
            terminal.draw(|frame| self.draw(frame)).context("cannot write to the terminal")?;
            // Draws again only where there is something new.
            loop {
                let heard = self.hear(asking)?;
                let goes = if heard == Goes::Out { heard } else { self.keys(asking, heard)? };
                match goes {
                    Goes::On => {}
                    Goes::Changed => break,
                    Goes::Out => return Ok(()),
                }
            }
        }
    }

    /// Waits for a key, and takes all that have come.
    fn keys(&mut self, asking: &Asking, heard: Goes) -> anyhow::Result<Goes> {
        let mut goes = heard;
        if terminal::wait(LOOK_EVERY).context("cannot read from the terminal")? == terminal::Waited::Gone {
            return Ok(Goes::Out);
        }
        while event::poll(Duration::ZERO).context("cannot read from the terminal")? {
            let pressed = match event::read().context("cannot read from the terminal")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    self.key(key, |wanted| asking.want(wanted))
                }
                _ => Goes::Changed,
            };
            match pressed {
                Goes::Out => return Ok(Goes::Out),
                Goes::Changed => goes = Goes::Changed,
                Goes::On => {}
            }
        }
        Ok(goes)
    }

    /// Takes in what there is to hear.
    fn hear(&mut self, asking: &Asking) -> anyhow::Result<Goes> {
        let mut goes = Goes::On;
        loop {
            match asking.told.try_recv() {
                Ok(told) => goes = self.told(told),
                Err(TryRecvError::Empty) => return Ok(goes),
                Err(TryRecvError::Disconnected) => anyhow::bail!("the thread that asks has ended"),
            }
            if goes == Goes::Out {
                return Ok(goes);
            }
        }
    }

    fn told(&mut self, told: Told) -> Goes {
        match told {
            Told::End => return Goes::Out,
            Told::Silence(why) => {
                self.notice = Notice::Silence(format!("asking again: {}", plain(&why).replace('\n', " ")));
            }
            Told::Top(top) => {
                let (before, now) = (self.top.pid, top.pid);
                self.top = *top;
                self.keep_in_list();
                let said = format!("process {now} has taken over from {before}; its lists are new");
                self.notice = match std::mem::replace(&mut self.notice, Notice::None) {
                    _ if before != now => Notice::Changed(said, CHANGED_FOR),
                    Notice::Changed(said, more @ 2..) => Notice::Changed(said, more - 1),
                    _ => Notice::None,
                };
            }
        }
        Goes::Changed
    }

    /// Does what a key says; `want` asks for another list.
    fn key(&mut self, key: KeyEvent, want: impl FnOnce(&TopWanted)) -> Goes {
        let before = self.wanted.clone();
        let page = usize::from(ROWS_MIN) * 2;
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Goes::Out,
            KeyCode::Char('q') | KeyCode::Esc => return Goes::Out,
            KeyCode::Char('?' | 'h') => {
                self.view = if self.view == View::Help { View::List } else { View::Help };
            }
            KeyCode::Up => self.first = self.first.saturating_sub(1),
            KeyCode::Down => self.first += 1,
            KeyCode::PageUp => self.first = self.first.saturating_sub(page),
            KeyCode::PageDown => self.first += page,
            KeyCode::Home => self.first = 0,
            code => self.choose(code),
        }
        self.keep_in_list();
        if before != self.wanted {
            (self.first, self.view) = (0, View::List);
            want(&self.wanted);
        }
        Goes::Changed
    }

    /// The list may be shorter than it was.
    fn keep_in_list(&mut self) {
        self.first = self.first.min(self.top.rows.len().saturating_sub(1));
    }

    /// What is listed from now on.
    fn choose(&mut self, code: KeyCode) {
        let wanted = &mut self.wanted;
        match code {
            KeyCode::Char('u') => wanted.by = TopBy::Url,
            KeyCode::Char('c') => wanted.by = TopBy::Client,
            KeyCode::Char('s') => wanted.by = TopBy::Site,
            KeyCode::Char('o') => wanted.by = TopBy::Origin,
            KeyCode::Tab => wanted.by = TopBy::ALL[(wanted.by as usize + 1) % TopBy::ALL.len()],
            KeyCode::Char('a') => wanted.order = TopOrder::Asked,
            KeyCode::Char('m') => wanted.order = TopOrder::Missed,
            KeyCode::Char('b') => wanted.order = TopOrder::Bytes,
            KeyCode::Char('n') => wanted.order = TopOrder::NotStored,
            KeyCode::Char('w') => {
                let window = wanted.window as usize + 1;
                wanted.window = TopWindow::ALL[window % TopWindow::ALL.len()];
            }
            _ => {}
        }
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let above = text::above(&self.top);
        let room = frame.area().height.saturating_sub(ROWS_MIN + 4);
        let high = u16::try_from(above.len()).unwrap_or(u16::MAX).min(room);
        let parts = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(high),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ]);
        let [first, rates, title, columns, rows, last] = parts.areas(frame.area());
        let strong = Style::new().add_modifier(Modifier::BOLD);
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        match &self.notice {
            Notice::None => put(frame, first, text::heading(&self.top), strong),
            Notice::Silence(said) | Notice::Changed(said, _) => put(frame, first, said.clone(), reversed),
        }
        put_lines(frame, rates, above);
        if self.view == View::Help {
            let below = Rect { height: title.height + columns.height + rows.height, ..title };
            put_lines(frame, below, HELP.lines().map(str::to_owned).collect());
        } else {
            put(frame, title, text::title(&self.top), strong);
            put(frame, columns, text::columns(&self.top).join("  "), reversed);
            put_lines(frame, rows, self.rows());
        }
        put(frame, last, KEYS.to_owned(), Style::new().add_modifier(Modifier::DIM));
    }

    fn rows(&self) -> Vec<String> {
        let rows = self.top.rows.iter().skip(self.first);
        let rows: Vec<String> = rows.map(|row| text::cells(&self.top, row).join("  ")).collect();
        if rows.is_empty() { vec![text::nothing(&self.top)] } else { rows }
    }
}

fn put(frame: &mut Frame<'_>, area: Rect, text: String, style: Style) {
    frame.render_widget(Paragraph::new(Line::from(text)).style(style), area);
}

fn put_lines(frame: &mut Frame<'_>, area: Rect, lines: Vec<String>) {
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(Text::from(lines)), area);
}

#[cfg(test)]
mod tests;
