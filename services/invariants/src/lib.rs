//! R1 to R12 as predicates.
