//! Faults planted one by one: each counter goes up, and only then.

mod faults;
mod rules;
mod world;
