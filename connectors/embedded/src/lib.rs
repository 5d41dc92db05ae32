//! The Log port on local disk.
