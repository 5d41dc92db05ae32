//! Deterministic simulation: one scheduler, one seed, production cores over memory connectors.
