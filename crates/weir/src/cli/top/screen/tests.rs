//! Units of the screen.
