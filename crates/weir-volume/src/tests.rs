//! The whole engine on the disk that crashes and fails, on a real one, and through its threads.

mod ceiling;
mod evictions;
mod faults;
mod kept;
mod numbers;
mod power;
mod quota;
mod real;
mod reinsertion;
mod scenes;
mod sealed;
mod stocks;
mod threads;
mod world;
