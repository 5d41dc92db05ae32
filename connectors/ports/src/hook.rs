//! What tests are called around each side effect of a role: where they stop the process.

use std::sync::Arc;

/// Before or after an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Before,
    After,
}

impl When {
    pub const ALL: &'static [When] = &[When::Before, When::After];

    pub fn name(self) -> &'static str {
        match self {
            When::Before => "before",
            When::After => "after",
        }
    }
}

/// Called around every effect, by kind; absent in production.
pub type Hook<Kind> = Arc<dyn Fn(Kind, When) + Send + Sync>;

/// Does the effect, with the hook called before and after it.
pub fn around<Kind: Copy, T>(hook: &Option<Hook<Kind>>, kind: Kind, effect: impl FnOnce() -> T) -> T {
    let call = |when| {
        if let Some(hook) = hook {
            hook(kind, when);
        }
    };
    call(When::Before);
    let result = effect();
    call(When::After);
    result
}
