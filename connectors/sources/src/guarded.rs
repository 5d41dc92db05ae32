//! A decoder that gives up on damaged bytes by a panic becomes an error: a file from somewhere never stops the process.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use parquet::errors::ParquetError;

thread_local! {
    /// A panic of this thread is caught, so nobody needs to be told.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs the decoder. Errors: its own, or what it said when it panicked; then what it worked on is used no more.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            if !CAUGHT.get() {
                tell(panicked);
            }
        }));
    });
    CAUGHT.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(decode));
    CAUGHT.set(false);
    result.unwrap_or_else(|panicked| Err(ParquetError::General(format!("the data is damaged: {}", said(&*panicked)))))
}

fn said(panicked: &(dyn Any + Send)) -> &str {
    let text = panicked.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panicked.downcast_ref::<&str>().copied()).unwrap_or("it cannot be decoded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_text() {
        let damaged = guarded::<()>(|| panic!("{} bytes lack", 3)).expect_err("it panicked");
        assert!(damaged.to_string().ends_with("the data is damaged: 3 bytes lack"), "{damaged}");
        assert_eq!(guarded(|| Ok(7)).expect("it decodes"), 7);
    }
}
