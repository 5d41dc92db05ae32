//! The accept rule: one record of a partition in, a verdict and the writes out.
