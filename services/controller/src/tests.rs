//! Tests of the controller: what it decides in each phase, and that no crash or lost answer keeps a job from its end.

mod chaos;
mod deciding;
mod fixture;
mod forgetting;
mod remembering;
