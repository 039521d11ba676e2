//! A script, compiled: what it must be to be taken, and how it is called. Constants of its first level are
//! put in place when it is compiled, so that a call runs `pick` alone. It must not be called before it has
//! passed its samples.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rhai::{AST, ASTFlags, ASTNode, CallFnOptions, Dynamic, Expr, FnCallExpr, Position, Scope, Stmt};
use weir_upstream::Denial;

use crate::condition::{Condition, Fault, Measure};
use crate::engine;
use crate::frame::Frame;
use crate::mistake::{Failure, Mistake, Source};
use crate::nearest::nearest;
use crate::views::{ClientView, DenialView, Origin, OriginList, RequestView, StateView};

/// The largest script, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 256 << 10;
/// The most `=>` of a script: the engine takes quadratic time for the cases of a `switch`. A map takes as
/// many.
const CASES_MAX: usize = 1024;
/// The function that picks,
const PICK: &str = "pick";
/// and its arguments.
const ARGUMENTS: [&str; 4] = ["request", "client", "origins", "state"];

/// A value that the configuration gives one of a script's constants.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// A text.
    Text(String),
    /// Several of them.
    List(Vec<Setting>),
}

/// Values of constants, by their names.
pub type Settings = Vec<(String, Setting)>;

impl Setting {
    fn value(&self) -> Dynamic {
        match self {
            Setting::Flag(flag) => (*flag).into(),
            Setting::Integer(number) => (*number).into(),
            Setting::Number(number) => (*number).into(),
            Setting::Text(text) => text.as_str().into(),
            Setting::List(list) => Dynamic::from_array(list.iter().map(Setting::value).collect()),
        }
    }
}

/// A script that can be called.
#[derive(Debug)]
pub struct Program {
    source: Source,
    ast: AST,
    constants: Vec<(String, Dynamic)>,
}

/// What a script says of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing: the next pick decides.
    Nothing,
    /// This origin, by its number.
    Origin(usize),
    /// One of these.
    Among(Box<[usize]>),
    /// The client gets none.
    Deny(Denial),
}

impl Program {
    /// Compiles a script with these values for its constants.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn compile(source: Source, settings: &[(String, Setting)]) -> Result<Program, Box<Mistake>> {
        if source.text.len() > SCRIPT_BYTES_MAX {
            let title = format!("a script has at most {} KiB", SCRIPT_BYTES_MAX >> 10);
            return Err(Box::new(Mistake::new(&source, None, title)));
        }
        if source.text.matches("=>").nth(CASES_MAX).is_some() {
            let title =
                format!("a script has at most {CASES_MAX} cases of `switch`: look a value up in a map");
            return Err(Box::new(Mistake::new(&source, None, title)));
        }
        let compiled = catch_unwind(|| compiled(&source, settings));
        let fault = || Box::new(Mistake::new(&source, None, "the engine could not read it"));
        let (ast, constants) = compiled.map_err(|_| fault())??;
        Ok(Program { source, ast, constants })
    }

    /// Its text and where it comes from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The names of its constants, which settings may give other values.
    pub fn constants(&self) -> impl Iterator<Item = &str> {
        self.constants.iter().map(|(name, _)| name.as_str())
    }

    /// Asks it.
    ///
    /// # Errors
    /// Why it could not say anything.
    pub fn call(&self, frame: &Frame<'_>) -> Result<Answer, Failure> {
        let called = catch_unwind(AssertUnwindSafe(|| frame.within(&self.constants, || self.called())));
        let value = match called {
            Ok(Ok(value)) => value,
            Ok(Err(error)) => return Err(self.placed(Failure::of(&error))),
            Err(_) => return Err(self.placed(Failure::nowhere("the engine has panicked"))),
        };
        answer(&value, frame).map_err(|failure| self.placed(failure))
    }

    /// What has no place is that of the function.
    fn placed(&self, failure: Failure) -> Failure {
        let place = failure.place.or_else(|| place_of_pick(&self.source));
        Failure { place, ..failure }
    }

    fn called(&self) -> Result<Dynamic, Box<rhai::EvalAltResult>> {
        let arguments = (RequestView, ClientView, OriginList::All, StateView);
        let options = CallFnOptions::new().eval_ast(false).rewind_scope(false);
        engine::strict().call_fn_with_options(options, &mut Scope::new(), &self.ast, PICK, arguments)
    }
}

fn answer(value: &Dynamic, frame: &Frame<'_>) -> Result<Answer, Failure> {
    if value.is_unit() {
        return Ok(Answer::Nothing);
    }
    if let Ok(origin) = value.as_ref_of::<Origin>() {
        return Ok(Answer::Origin(origin.0));
    }
    if let Ok(denial) = value.as_ref_of::<DenialView>() {
        // The answer to a fill is for everybody.
        return Ok(if frame.asked.is_pass() { Answer::Deny(denial.0) } else { Answer::Nothing });
    }
    if let Ok(list) = value.as_ref_of::<OriginList>() {
        let numbers: Box<[usize]> = list.numbers(frame.row).collect();
        return Ok(if numbers.is_empty() { Answer::Nothing } else { Answer::Among(numbers) });
    }
    let kind = engine::strict().map_type_name(value.type_name());
    let why = format!("`pick` gave {kind}: it gives an origin, origins, `deny(…)`, or nothing");
    Err(Failure::nowhere(why))
}

trait AsRefOf {
    fn as_ref_of<T: Clone + Send + Sync + 'static>(&self) -> Result<T, ()>;
}

impl AsRefOf for Dynamic {
    fn as_ref_of<T: Clone + Send + Sync + 'static>(&self) -> Result<T, ()> {
        self.read_lock::<T>().map(|held| held.clone()).ok_or(())
    }
}

type Compiled = Result<(AST, Vec<(String, Dynamic)>), Box<Mistake>>;

fn compiled(source: &Source, settings: &[(String, Setting)]) -> Compiled {
    let parse = |error: rhai::ParseError| Box::new(Mistake::of_parse(source, &error));
    let first = engine::loose().compile(&*source.text).map_err(parse)?;
    constants_alone(source, &first)?;
    let mut found = Scope::new();
    let ran = engine::loose().run_ast_with_scope(&mut found, &first);
    ran.map_err(|error| Box::new(Mistake::of_failure(source, Failure::of(&error))))?;
    let names: Vec<String> = found.iter_raw().map(|(name, ..)| name.to_owned()).collect();
    for (name, _) in settings {
        if !names.contains(name) {
            return Err(Box::new(no_constant(source, name, &names)));
        }
    }
    let (mut scope, mut constants) = (Scope::new(), Vec::new());
    for (name, _, value) in found.iter_raw() {
        let set = settings.iter().rev().find(|(set, _)| set == name);
        let value = match set {
            Some((_, setting)) => fitting(source, name, value, setting)?,
            None => value.clone(),
        };
        constants.push((name.to_owned(), value.clone()));
        scope.push_constant_dynamic(name, value);
    }
    let mut ast = engine::strict().compile_with_scope(&scope, &*source.text).map_err(parse)?;
    has_pick(source, &ast)?;
    phrases(source, &ast)?;
    ast.clear_statements();
    Ok((ast, constants))
}

/// Only constants and functions stand at the first level: nothing else would ever run.
fn constants_alone(source: &Source, ast: &AST) -> Result<(), Box<Mistake>> {
    for statement in ast.statements() {
        let is_constant = match statement {
            Stmt::Noop(_) => true,
            Stmt::Var(_, flags, _) => flags.intersects(ASTFlags::CONSTANT),
            _ => false,
        };
        if !is_constant {
            let title = "only `const` and `fn` stand at the first level of a script";
            let mistake = Mistake::at(source, statement.position(), title);
            let mistake = mistake.label("this would never run");
            return Err(Box::new(mistake.help("what is to run for each request belongs into `fn pick`")));
        }
    }
    Ok(())
}

fn no_constant(source: &Source, name: &str, names: &[String]) -> Mistake {
    let title = format!("the script has no constant `{name}`, which the configuration gives a value");
    let mistake = Mistake::new(source, None, title);
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => mistake.help(format!("did you mean `{near}`?")),
        None if names.is_empty() => mistake.help("it has none"),
        None => mistake.help(format!("it has {}", names.join(", "))),
    }
}

/// The value that is set, where it is of the kind that the script expects.
fn fitting(source: &Source, name: &str, own: &Dynamic, setting: &Setting) -> Result<Dynamic, Box<Mistake>> {
    let value = match setting {
        Setting::Integer(number) if own.is_float() => Dynamic::from_float(*number as f64),
        other => other.value(),
    };
    if value.type_id() == own.type_id() || own.is_unit() {
        return Ok(value);
    }
    let (kind, wanted) = (value.type_name(), own.type_name());
    let title = format!("`{name}` is {kind} in the configuration, and {wanted} in the script");
    Err(Box::new(Mistake::new(source, None, title)))
}

fn has_pick(source: &Source, ast: &AST) -> Result<(), Box<Mistake>> {
    let wanted = format!("fn {PICK}({})", ARGUMENTS.join(", "));
    let mut functions = ast.iter_functions();
    let Some(pick) = functions.find(|function| function.name == PICK) else {
        let title = format!("the script has no `{wanted}`");
        return Err(Box::new(Mistake::new(source, None, title)));
    };
    if pick.params.len() == ARGUMENTS.len() {
        return Ok(());
    }
    let place = place_of_pick(source);
    let title = format!("`{PICK}` has {} arguments: it is `{wanted}`", pick.params.len());
    Err(Box::new(Mistake::new(source, place, title)))
}

/// Line and column of `fn pick`.
fn place_of_pick(source: &Source) -> Option<(usize, usize)> {
    let line = source.text.lines().position(|line| line.trim_start().starts_with("fn pick"));
    line.map(|line| (line + 1, 1))
}

/// Conditions and measures that stand in the script are read now, so that a wrong one has its place.
fn phrases(source: &Source, ast: &AST) -> Result<(), Box<Mistake>> {
    let mut found = None;
    ast.walk(&mut |nodes: &[ASTNode<'_>]| {
        let call = match nodes.last() {
            Some(ASTNode::Expr(Expr::MethodCall(call, _) | Expr::FnCall(call, _))) => call,
            Some(ASTNode::Stmt(Stmt::FnCall(call, _))) => call,
            _ => return true,
        };
        found = phrase(call);
        found.is_none()
    });
    let Some((fault, text, position)) = found else { return Ok(()) };
    let line = position.line().and_then(|line| source.text.lines().nth(line - 1)).unwrap_or_default();
    let column = position.position().unwrap_or(1);
    let after: String = line.chars().skip(column).collect();
    // Where the text stands there as it is, the caret is at its mistake.
    let inside = if after.starts_with(&text) { 1 + text[..fault.at].chars().count() } else { 0 };
    let place = position.line().map(|line| (line, column + inside));
    Err(Box::new(Mistake::new(source, place, fault.why)))
}

fn phrase(call: &FnCallExpr) -> Option<(Fault, String, Position)> {
    let Some(Expr::StringConstant(text, position)) = call.args.first() else { return None };
    if call.args.len() != 1 {
        return None;
    }
    let fault = match call.name.as_str() {
        "where" => Condition::parse(text).err(),
        "least" | "drawn" => Measure::parse(text).err(),
        _ => None,
    };
    fault.map(|fault| (fault, text.to_string(), *position))
}

#[cfg(test)]
mod tests;
