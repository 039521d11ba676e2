//! Properties of rise and fall, and checks against scripted origins.
mod asked;
mod state;
