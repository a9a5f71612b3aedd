//! What the recordings of a program that is started again share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::modules::Modules;
use crate::RecordError;
use crate::signals::Signals;

/// Shared by all recordings with clones of it.
#[derive(Debug, Clone, Default)]
pub struct CausalShared(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// They keep their order, which targets refer to.
    modules: Mutex<Modules>,
    interrupted: Arc<AtomicBool>,
}

impl CausalShared {
    pub(super) fn modules(&self) -> MutexGuard<'_, Modules> {
        self.0.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until the value is dropped, signals that ask whyslow to end do not end it, also between recordings.
    pub fn hold_signals(&self) -> Result<HeldSignals, RecordError> {
        let signals = Signals::new().map_err(|error| RecordError::System { what: "signals", error })?;
        Ok(HeldSignals(signals.telling(Some(self.interrupted()))))
    }

    /// Set when whyslow is asked to end: by Ctrl-C, or by a signal to it alone.
    pub(crate) fn interrupted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.interrupted)
    }

    /// Whether whyslow was asked to end. Then there are no more experiments.
    pub fn is_interrupted(&self) -> bool {
        self.0.interrupted.load(Ordering::Acquire)
    }
}

/// Signals that are held back.
#[derive(Debug)]
pub struct HeldSignals(#[expect(dead_code, reason = "held until it is dropped")] Signals);
