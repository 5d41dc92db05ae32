//! Points at which a test stops the process with SIGKILL; compiled in only with the feature `failpoints`.
//!
//! A point is named `<role>.<effect>.<before|after>`, from the closed enums of effects, so that a new effect cannot be
//! forgotten. `REHOME_FAIL_AT=node.ingest.after:2` stops the process right after its second ingest.

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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    const VARIABLE: &str = "REHOME_FAIL_AT";
    const MOMENTS: [&str; 2] = ["before", "after"];

    /// Returns the name of every point.
    pub fn names() -> Vec<String> {
        let node = rehome_node::Step::ALL.iter().map(|step| ("node", step.name()));
        let router = rehome_router::EffectKind::ALL.iter().map(|kind| ("router", kind.name()));
        let controller = rehome_controller::EffectKind::ALL.iter().map(|kind| ("controller", kind.name()));
        let effects = node.chain(router).chain(controller);
        effects.flat_map(|(role, effect)| MOMENTS.map(|when| format!("{role}.{effect}.{when}"))).collect()
    }

    /// A point, and how often it is still passed.
    struct Point {
        name: String,
        left: AtomicU32,
    }

    impl Point {
        /// Reads `name` or `name:n`, n counted from 1.
        fn read(text: &str) -> Result<Point, Failure> {
            let (name, count) = text.split_once(':').unwrap_or((text, "1"));
            let count = count.parse().ok().filter(|count| *count > 0);
            let known = names().iter().any(|known| known == name);
            let (true, Some(count)) = (known, count) else {
                return Err(Failure::usage(format!("{VARIABLE}={text} names no fail point")).next("rehome fail-points"));
            };
            Ok(Point { name: name.to_owned(), left: AtomicU32::new(count) })
        }

        /// Tells whether the process stops here.
        fn is_reached(&self, role: &str, effect: &str, is_before: bool) -> bool {
            let when = MOMENTS[usize::from(!is_before)];
            let mut parts = self.name.split('.');
            let is_here = parts.next() == Some(role) && parts.next() == Some(effect) && parts.next() == Some(when);
            is_here && self.left.fetch_sub(1, Ordering::SeqCst) == 1
        }

        fn pass(&self, role: &str, effect: &str, is_before: bool) {
            if self.is_reached(role, effect, is_before) {
                let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            }
        }
    }

    impl Hooks {
        /// Returns hooks that stop the process where the environment says.
        ///
        /// Errors: it names no point.
        pub fn from_environment() -> Result<Hooks, Failure> {
            let Ok(text) = std::env::var(VARIABLE) else { return Ok(Hooks::default()) };
            let node = Arc::new(Point::read(&text)?);
            let (router, controller) = (Arc::clone(&node), Arc::clone(&node));
            Ok(Hooks {
                node: Some(Arc::new(move |step, when| {
                    node.pass("node", step.name(), when == rehome_node::When::Before);
                })),
                router: Some(Arc::new(move |kind, when| {
                    router.pass("router", kind.name(), when == rehome_router::When::Before);
                })),
                controller: Some(Arc::new(move |kind, when| {
                    controller.pass("controller", kind.name(), when == rehome_controller::When::Before);
                })),
            })
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

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
            assert!(all.iter().all(|name| Point::read(name).is_ok()));
        }

        #[test]
        fn a_point_is_reached_once_at_its_count() {
            let point = Point::read("controller.append-fence.after:2").expect("a good name");
            assert!(!point.is_reached("controller", "append-fence", false));
            assert!(!point.is_reached("controller", "append-fence", true));
            assert!(point.is_reached("controller", "append-fence", false));
            assert!(!point.is_reached("controller", "append-fence", false));
        }

        #[test]
        fn a_wrong_name_is_refused() {
            for text in ["", "node", "node.ingest.between", "node.ingest.after:0", "node.ingest.after:x"] {
                assert!(Point::read(text).is_err(), "{text}");
            }
        }
    }
}
