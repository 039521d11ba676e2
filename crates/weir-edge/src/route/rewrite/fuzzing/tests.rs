//! Runs the fuzz bodies of this rule over their seeds and bounded mutations of them, on any toolchain.

use weir_testkit::fuzz;

/// What mutations insert, beside bytes of other seeds.
const WORDS: &[&[u8]] = &[
    b"*",
    b"**",
    b"{1}",
    b"{2}",
    b"{query}",
    b"?",
    b"&",
    b"/",
    b"//",
    b"..",
    b"/../",
    b"/./",
    b"%2e",
    b"%2F",
    b"%00",
    b"%0d%0a",
    b";",
    b"\\",
    b"~^/(.*)$",
    b"(",
    b")",
    b"{host}",
    b"{header.X-A}",
    b"Path=/",
    b"url=",
    b"#",
    b"\xc3\xa9",
];

#[test]
fn rewriting_keeps_its_promises() {
    fuzz("rewriting", WORDS, super::rewriting);
}
