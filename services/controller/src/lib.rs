//! The loop around control-core and planner that drives moves.
