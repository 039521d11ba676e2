//! Properties that hold across the rooms of this crate.
