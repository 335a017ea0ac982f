//! Records panics on the threads of runs. A panic hook is the only way to detect panics that a runtime catches.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

static HOOK: Once = Once::new();

thread_local! {
    /// The panics of this thread, if it runs a plan.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs a function and returns the panics that occurred on this thread during the call, caught or not. They are not
/// printed.
pub(crate) fn recorded<T>(run: impl FnOnce() -> T) -> (T, Vec<String>) {
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let text = info.to_string().replace('\n', " ");
            let is_recorded = PANICS.with_borrow_mut(|panics| match panics {
                Some(panics) => {
                    panics.push(text);
                    true
                }
                None => false,
            });
            if !is_recorded {
                previous(info);
            }
        }));
    });
    PANICS.set(Some(Vec::new()));
    let result = run();
    (result, PANICS.take().unwrap_or_default())
}
