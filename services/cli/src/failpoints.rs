//! Points at which a test stops the process with SIGKILL, or holds one of its threads; compiled in only with the
//! feature `failpoints`.
//!
//! A point is named `<role>.<effect>.<before|after>`, from the closed enums of effects, so that a new effect cannot be
//! forgotten. `REHOME_FAIL_AT=node.ingest.after:2` stops the process right after its second ingest.
//! `REHOME_HOLD_AT=node.ingest.after` with `REHOME_HOLD_PIPE=PATH` holds the thread there until somebody has opened the
//! named pipe for writing and closed it again: how a test makes a step slow, and looks around meanwhile.

/// What is called around the effects of each role; nothing in production.
#[derive(Clone, Default)]
pub struct Hooks {
    pub node: Option<rehome_node::StepHook>,
    pub router: Option<rehome_router::EffectHook>,
    pub controller: Option<rehome_controller::EffectHook>,
}

impl Hooks {
    #[cfg(not(feature = "failpoints"))]
    pub fn from_environment() -> Result<Hooks, crate::exit::Failure> {
        Ok(Hooks::default())
    }
}

#[cfg(feature = "failpoints")]
pub use compiled_in::names;

#[cfg(feature = "failpoints")]
mod compiled_in {
    use super::Hooks;
    use crate::exit::Failure;
    use rehome_ports::When;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    const FAIL_AT: &str = "REHOME_FAIL_AT";
    const HOLD_AT: &str = "REHOME_HOLD_AT";
    const HOLD_PIPE: &str = "REHOME_HOLD_PIPE";

    /// Returns the name of every point.
    pub fn names() -> Vec<String> {
        let node = rehome_node::Step::ALL.iter().map(|step| ("node", step.name()));
        let router = rehome_router::EffectKind::ALL.iter().map(|kind| ("router", kind.name()));
        let controller = rehome_controller::EffectKind::ALL.iter().map(|kind| ("controller", kind.name()));
        let effects = node.chain(router).chain(controller);
        effects
            .flat_map(|(role, effect)| When::ALL.iter().map(move |when| format!("{role}.{effect}.{}", when.name())))
            .collect()
    }

    /// A point, and how often it is still passed.
    struct Point {
        name: String,
        left: AtomicU32,
    }

    impl Point {
        /// Reads `name` or `name:n`, n counted from 1, as the variable holds it.
        fn read(variable: &str, text: &str) -> Result<Point, Failure> {
            let (name, count) = text.split_once(':').unwrap_or((text, "1"));
            let count = count.parse().ok().filter(|count| *count > 0);
            let known = names().iter().any(|known| known == name);
            let (true, Some(count)) = (known, count) else {
                return Err(Failure::usage(format!("{variable}={text} names no fail point")).next("rehome fail-points"));
            };
            Ok(Point { name: name.to_owned(), left: AtomicU32::new(count) })
        }

        /// Tells whether the process stops here.
        fn is_reached(&self, role: &str, effect: &str, when: When) -> bool {
            let mut parts = self.name.split('.');
            let is_here =
                parts.next() == Some(role) && parts.next() == Some(effect) && parts.next() == Some(when.name());
            is_here && self.left.fetch_sub(1, Ordering::SeqCst) == 1
        }
    }

    /// What happens at which point.
    #[derive(Default)]
    struct Points {
        fail: Option<Point>,
        hold: Option<(Point, PathBuf)>,
    }

    impl Points {
        fn from_environment() -> Result<Points, Failure> {
            let point = |variable: &str| std::env::var(variable).ok().map(|text| Point::read(variable, &text));
            let hold = match (point(HOLD_AT).transpose()?, std::env::var_os(HOLD_PIPE)) {
                (Some(point), Some(pipe)) => Some((point, pipe.into())),
                (None, None) => None,
                _ => return Err(Failure::usage(format!("{HOLD_AT} and {HOLD_PIPE} go together"))),
            };
            Ok(Points { fail: point(FAIL_AT).transpose()?, hold })
        }

        fn pass(&self, role: &str, effect: &str, when: When) {
            let is_here = |point: &Point| point.is_reached(role, effect, when);
            if let Some((_, pipe)) = self.hold.as_ref().filter(|(point, _)| is_here(point)) {
                // Ends when the other end is closed. A pipe that is not there holds nobody.
                let _ = std::fs::read(pipe);
            }
            if self.fail.as_ref().is_some_and(is_here) {
                let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            }
        }
    }

    impl Hooks {
        /// Returns hooks that stop or hold the process where the environment says.
        ///
        /// Errors: it names no point.
        pub fn from_environment() -> Result<Hooks, Failure> {
            let node = Arc::new(Points::from_environment()?);
            if node.fail.is_none() && node.hold.is_none() {
                return Ok(Hooks::default());
            }
            let (router, controller) = (Arc::clone(&node), Arc::clone(&node));
            Ok(Hooks {
                node: Some(Arc::new(move |step, when| {
                    node.pass("node", step.name(), when);
                })),
                router: Some(Arc::new(move |kind, when| {
                    router.pass("router", kind.name(), when);
                })),
                controller: Some(Arc::new(move |kind, when| {
                    controller.pass("controller", kind.name(), when);
                })),
            })
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn read(text: &str) -> Result<Point, Failure> {
            Point::read(FAIL_AT, text)
        }

        #[test]
        fn every_effect_has_two_points_and_no_name_is_double() {
            let mut all = names();
            let effects = rehome_node::Step::ALL.len()
                + rehome_router::EffectKind::ALL.len()
                + rehome_controller::EffectKind::ALL.len();
            assert_eq!(all.len(), 2 * effects);
            all.sort();
            all.dedup();
            assert_eq!(all.len(), 2 * effects);
            assert!(all.iter().all(|name| read(name).is_ok()));
        }

        #[test]
        fn a_point_is_reached_once_at_its_count() {
            let point = read("controller.append-fence.after:2").expect("a good name");
            assert!(!point.is_reached("controller", "append-fence", When::After));
            assert!(!point.is_reached("controller", "append-fence", When::Before));
            assert!(point.is_reached("controller", "append-fence", When::After));
            assert!(!point.is_reached("controller", "append-fence", When::After));
        }

        #[test]
        fn a_pipe_that_is_not_there_holds_nobody() {
            let point = read("node.write.before").expect("a good name");
            let points = Points { fail: None, hold: Some((point, "/no/such/pipe".into())) };
            points.pass("node", "write", When::Before);
        }

        #[test]
        fn a_wrong_name_is_refused() {
            for text in ["", "node", "node.ingest.between", "node.ingest.after:0", "node.ingest.after:x"] {
                assert!(read(text).is_err(), "{text}");
            }
        }
    }
}
