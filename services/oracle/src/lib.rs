//! An independent fold of the logs by the documented rule, and the three-way comparison.
