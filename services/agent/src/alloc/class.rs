//! The lifecycle classes of tasks. Pure.

use model::job::{Lifecycle, LifecycleHook};

/// When a task runs, relative to the other tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Runs before the main tasks, to its end.
    Prestart,
    /// Starts before the main tasks and runs beside them.
    PrestartSidecar,
    /// A main task.
    Main,
    /// Runs after the main tasks have started, to its end.
    Poststart,
    /// Starts after the main tasks and runs beside them.
    PoststartSidecar,
    /// Runs after all other tasks have ended.
    Poststop,
}

impl Class {
    /// The class of a task with this lifecycle.
    pub(crate) fn of(lifecycle: Option<Lifecycle>) -> Self {
        let Some(Lifecycle { hook, sidecar }) = lifecycle else { return Self::Main };
        match (hook, sidecar) {
            (LifecycleHook::Prestart, false) => Self::Prestart,
            (LifecycleHook::Prestart, true) => Self::PrestartSidecar,
            (LifecycleHook::Poststart, false) => Self::Poststart,
            (LifecycleHook::Poststart, true) => Self::PoststartSidecar,
            (LifecycleHook::Poststop, _) => Self::Poststop,
        }
    }

    /// Whether the task runs beside the main tasks.
    pub(crate) fn is_sidecar(self) -> bool {
        matches!(self, Self::PrestartSidecar | Self::PoststartSidecar)
    }
}
