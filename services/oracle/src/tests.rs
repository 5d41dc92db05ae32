//! Faults planted one by one: each counter goes up.
