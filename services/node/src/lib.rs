//! Hosts replicas: tails the log, applies, copies, replays, answers reads.
