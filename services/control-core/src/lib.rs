//! The fold of the control log: keyspaces, routes, jobs, moves, attempts.
