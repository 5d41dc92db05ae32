//! The Store and SnapshotStore ports on RocksDB.
