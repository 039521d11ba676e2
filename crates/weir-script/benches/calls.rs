//! What a call costs.

fn main() {}
