//! Conditions and measures that were read before, by their text: each thread keeps some, so that nothing is
//! locked and a call does not read them again. It must stay bounded, whatever texts scripts make up.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::condition::{Condition, Fault, Measure};

/// So many are kept of each kind. One more empties the table.
const KEPT_MAX: usize = 256;

thread_local! {
    static CONDITIONS: RefCell<Kept<Condition>> = RefCell::default();
    static MEASURES: RefCell<Kept<Measure>> = RefCell::default();
}

type Kept<T> = HashMap<Box<str>, Rc<T>>;

/// The condition that a text says.
pub(crate) fn condition(text: &str) -> Result<Rc<Condition>, String> {
    CONDITIONS.with_borrow_mut(|kept| of(kept, text, Condition::parse))
}

/// The measure that a text says.
pub(crate) fn measure(text: &str) -> Result<Rc<Measure>, String> {
    MEASURES.with_borrow_mut(|kept| of(kept, text, Measure::parse))
}

fn of<T>(
    kept: &mut Kept<T>,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, Fault>,
) -> Result<Rc<T>, String> {
    if let Some(known) = kept.get(text) {
        return Ok(known.clone());
    }
    let parsed = Rc::new(parse(text).map_err(|fault| format!("in \"{text}\": {fault}"))?);
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
    kept.insert(text.into(), parsed.clone());
    Ok(parsed)
}
