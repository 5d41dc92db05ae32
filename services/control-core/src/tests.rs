//! Tests of the fold: each refusal, each phase with each event, random logs against a plain oracle.

mod cutovers;
mod drops;
mod endings;
mod inboxes;
mod pauses;
mod phases;
mod random;
mod refusals;
mod replicas;
mod setup;
mod world;
