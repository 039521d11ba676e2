//! What is wrong with a script, at its place, as the configuration's mistakes look. It must not decide what
//! is wrong.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use rhai::{EvalAltResult, ParseError, Position};

/// A mistake of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The file's text.
    pub text: Arc<str>,
    /// Line and column, from 1 on; `None` where it stands nowhere.
    pub place: Option<(usize, usize)>,
    /// What is wrong, in one sentence.
    pub title: String,
    /// The text at the caret.
    pub label: String,
    /// What to do.
    pub help: Option<String>,
}

/// The error of one run, at its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Line and column, from 1 on.
    pub place: Option<(usize, usize)>,
    /// What has happened, in one sentence.
    pub why: String,
}

impl Failure {
    /// A failure that stands nowhere.
    pub(crate) fn nowhere(why: impl Into<String>) -> Failure {
        Failure { place: None, why: why.into() }
    }

    /// Of an error of the engine.
    pub(crate) fn of(error: &EvalAltResult) -> Failure {
        // The place is the innermost one that there is.
        let mut place = at(error.position());
        let mut inner = error;
        while let EvalAltResult::ErrorInFunctionCall(_, _, next, _) = inner {
            inner = next;
            place = at(inner.position()).or(place);
        }
        Failure { place, why: sentence(inner) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(out, "{line}:{column}: {}", self.why),
            None => out.write_str(&self.why),
        }
    }
}

/// What to do where a helper gave nothing.
const COMPARE: &str = "a helper, a field or a metric gave none; compare with `()` first";

/// What the engine says, in Weir's words.
fn sentence(error: &EvalAltResult) -> String {
    match error {
        EvalAltResult::ErrorTooManyOperations(_) => {
            format!("it took more than {} operations", crate::engine::OPERATIONS_MAX)
        }
        EvalAltResult::ErrorStackOverflow(_) => {
            format!("its calls went deeper than {}", crate::engine::CALLS_DEEP_MAX)
        }
        EvalAltResult::ErrorDataTooLarge(what, _) => format!("a value grew beyond 64 KiB ({what})"),
        EvalAltResult::ErrorTerminated(why, _) => why.to_string(),
        EvalAltResult::ErrorRuntime(why, _) => why.to_string(),
        EvalAltResult::ErrorFunctionNotFound(call, _) => match call.split_once(" (()") {
            Some((name, _)) => format!("`{name}` is asked of nothing (`()`): {COMPARE}"),
            None => format!("there is no function `{call}`"),
        },
        EvalAltResult::ErrorDotExpr(why, _) if why.contains("for type '()'") => {
            let name = why.split('\'').nth(1).unwrap_or_default();
            format!("`{name}` is asked of nothing (`()`): {COMPARE}")
        }
        EvalAltResult::ErrorVariableNotFound(name, _) => format!("nothing is called `{name}`"),
        other => {
            let text = other.to_string();
            let mut text = text.rfind(" (line ").map_or(text.as_str(), |at| &text[..at]).to_owned();
            lower(&mut text);
            text
        }
    }
}

fn lower(text: &mut str) {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_lowercase();
    }
}

fn at(position: Position) -> Option<(usize, usize)> {
    Some((position.line()?, position.position().unwrap_or(1)))
}

impl Mistake {
    pub(crate) fn new(source: &Source, place: Option<(usize, usize)>, title: impl Into<String>) -> Mistake {
        Mistake {
            file: source.file.clone(),
            text: source.text.clone(),
            place,
            title: title.into(),
            label: String::new(),
            help: None,
        }
    }

    pub(crate) fn at(source: &Source, position: Position, title: impl Into<String>) -> Mistake {
        Mistake::new(source, at(position), title)
    }

    /// Of a text that is no script.
    pub(crate) fn of_parse(source: &Source, error: &ParseError) -> Mistake {
        let mut title = error.err_type().to_string();
        lower(&mut title);
        let mistake = Mistake::at(source, error.position(), title.clone());
        match error.err_type() {
            rhai::ParseErrorType::VariableUndefined(name) => Mistake {
                title: format!("nothing is called `{name}` here"),
                help: Some("functions see their arguments, and constants of the first level".to_owned()),
                ..mistake
            },
            _ => mistake,
        }
    }

    /// Of a run that has failed.
    pub(crate) fn of_failure(source: &Source, failure: Failure) -> Mistake {
        Mistake::new(source, failure.place, failure.why)
    }

    pub(crate) fn label(self, label: impl Into<String>) -> Mistake {
        Mistake { label: label.into(), ..self }
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Mistake {
        Mistake { help: Some(help.into()), ..self }
    }

    /// File, line, column and sentence in one line, for logs.
    pub fn line(&self) -> String {
        let label = if self.label.is_empty() { String::new() } else { format!(" ({})", self.label) };
        match self.place {
            Some((line, column)) => format!("{}:{line}:{column}: {}{label}", self.file, self.title),
            None => format!("{}: {}{label}", self.file, self.title),
        }
    }

    fn render(&self, renderer: &Renderer) -> String {
        let title = Level::ERROR.primary_title(self.title.as_str());
        let snippet = Snippet::source(&*self.text).path(&*self.file).fold(true);
        let group = match self.span() {
            Some(span) => {
                let caret = AnnotationKind::Primary.span(span);
                let caret = if self.label.is_empty() { caret } else { caret.label(self.label.as_str()) };
                title.element(snippet.annotation(caret))
            }
            None if self.label.is_empty() => title.element(Level::NOTE.message(format!("in {}", self.file))),
            None => title.element(Level::NOTE.message(format!("in {}: {}", self.file, self.label))),
        };
        let group = match &self.help {
            Some(help) => group.element(Level::HELP.message(help.as_str())),
            None => group,
        };
        renderer.render(&[group])
    }

    /// The bytes at the place: a word, or one character.
    fn span(&self) -> Option<Range<usize>> {
        let (line, column) = self.place?;
        let before: usize = self.text.split_inclusive('\n').take(line - 1).map(str::len).sum();
        let text = self.text.get(before..)?.lines().next().unwrap_or_default();
        let start = text.char_indices().nth(column.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
        let rest = &text[start..];
        let word = rest.find(|byte: char| !byte.is_alphanumeric() && byte != '_').unwrap_or(rest.len());
        let length = if word > 0 { word } else { rest.chars().next().map_or(0, char::len_utf8) };
        Some(before + start..before + start + length)
    }

    /// The whole report with the colours of a terminal.
    pub fn render_coloured(&self) -> String {
        self.render(&Renderer::styled().decor_style(DecorStyle::Ascii))
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.render(&Renderer::plain().decor_style(DecorStyle::Ascii)))
    }
}

impl std::error::Error for Mistake {}

/// A script's text and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file, as messages name it.
    pub file: Arc<str>,
    /// Its text.
    pub text: Arc<str>,
}
