//! Follows the control log, and appends to it.
