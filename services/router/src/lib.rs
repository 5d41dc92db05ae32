//! Key to slot to shard: appends writes, waits for verdicts, answers.
