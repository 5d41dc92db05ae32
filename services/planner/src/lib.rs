//! What has to move for a wished shard count, and how long it takes.
