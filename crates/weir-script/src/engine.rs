//! The engine that runs scripts: Rhai without files, network, clock, modules, `eval` and shared values, and
//! with limits. It is made once for the process. It must not offer anything that waits or reaches outside.

use std::sync::OnceLock;

use rhai::Engine;
use rhai::packages::{
    ArithmeticPackage, BasicArrayPackage, BasicFnPackage, BasicIteratorPackage, BasicMapPackage,
    BasicMathPackage, BasicStringPackage, LogicPackage, MoreStringPackage, Package,
};

use crate::{frame, views};

/// The most operations of one call.
pub const OPERATIONS_MAX: u64 = 2000;
/// The most bytes of a text, and of all texts in a list or a map.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// The most values in a list: 64 KiB of them.
const LIST_MAX: usize = 4096;
/// The most entries of a map: 64 KiB of them.
const MAP_MAX: usize = 1024;
/// How deep calls may go.
pub const CALLS_DEEP_MAX: usize = 16;
/// How deep expressions may be nested, in functions as well.
const EXPRESSIONS_DEEP_MAX: usize = 32;
/// The most variables at one time.
const VARIABLES_MAX: usize = 256;
/// The most functions of a script.
const FUNCTIONS_MAX: usize = 256;

/// The engine that refuses names that nothing is called by. All but the first run of a script's constants is
/// done by it.
pub(crate) fn strict() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| engine(Names::Known))
}

/// The engine that takes names for those of constants to come.
pub(crate) fn loose() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| engine(Names::Any))
}

#[derive(PartialEq)]
enum Names {
    Known,
    Any,
}

fn engine(names: Names) -> Engine {
    let mut engine = Engine::new_raw();
    // Not the language's core package: it has `sleep`.
    ArithmeticPackage::new().register_into_engine(&mut engine);
    LogicPackage::new().register_into_engine(&mut engine);
    BasicFnPackage::new().register_into_engine(&mut engine);
    BasicIteratorPackage::new().register_into_engine(&mut engine);
    BasicMathPackage::new().register_into_engine(&mut engine);
    BasicArrayPackage::new().register_into_engine(&mut engine);
    BasicMapPackage::new().register_into_engine(&mut engine);
    BasicStringPackage::new().register_into_engine(&mut engine);
    MoreStringPackage::new().register_into_engine(&mut engine);
    views::register(&mut engine);
    #[expect(deprecated, reason = "`on_var` is marked as unstable")]
    engine
        .set_max_operations(OPERATIONS_MAX)
        .set_max_call_levels(CALLS_DEEP_MAX)
        .set_max_expr_depths(EXPRESSIONS_DEEP_MAX, EXPRESSIONS_DEEP_MAX)
        .set_max_string_size(TEXT_BYTES_MAX)
        .set_max_array_size(LIST_MAX)
        .set_max_map_size(MAP_MAX)
        .set_max_variables(VARIABLES_MAX)
        .set_max_functions(FUNCTIONS_MAX)
        // The table of texts that all threads would share has a lock.
        .set_max_strings_interned(0)
        .set_strict_variables(names == Names::Known)
        .disable_symbol("eval")
        // A pointer to a function that carries values has no size, and grows twofold with each call.
        .disable_symbol("curry")
        .disable_symbol("Fn")
        // Arguments and variables of a function have an index.
        .on_var(|name, index, _| Ok(if index == 0 { frame::constant(name) } else { None }))
        .on_progress(frame::progress)
        .on_print(frame::print)
        .on_debug(|text, _, _| frame::print(text));
    engine
}
