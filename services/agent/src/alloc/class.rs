//! Which tasks of an allocation may run when. Pure.

use model::alloc::TaskRunState;
use model::job::{Lifecycle, LifecycleHook};

use super::status::Tasks;

/// When a task runs, relative to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Before the main tasks, to its end.
    Prestart,
    /// From before the main tasks on, beside them.
    PrestartSidecar,
    /// Mainly.
    Main,
    /// After the main tasks have started, to its end.
    Poststart,
    /// From after the main tasks have started on, beside them.
    PoststartSidecar,
    /// After all others have ended.
    Poststop,
}

impl Class {
    /// The class of a task with such a lifecycle.
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

    /// Whether it runs beside the main tasks.
    pub(crate) fn is_sidecar(self) -> bool {
        matches!(self, Self::PrestartSidecar | Self::PoststartSidecar)
    }
}

/// How far an allocation is in its life, once everything that tasks need is there. A restored one begins with the first
/// phase, too, and goes on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// What comes first.
    Prestart,
    /// Main tasks.
    Main,
    /// What comes once they have started.
    Poststart,
    /// All runs; its end is awaited.
    WaitAlloc,
    /// What comes after the end; for good.
    Poststop,
}

impl Phase {
    /// Whether tasks of a class may start.
    pub(crate) fn opens(self, class: Class) -> bool {
        use Class as C;
        match self {
            Self::Prestart => matches!(class, C::Prestart | C::PrestartSidecar),
            Self::Main => matches!(class, C::PrestartSidecar | C::Main),
            Self::Poststart => {
                matches!(class, C::PrestartSidecar | C::Main | C::Poststart | C::PoststartSidecar)
            }
            Self::WaitAlloc => matches!(class, C::PrestartSidecar | C::Main | C::PoststartSidecar),
            Self::Poststop => class == C::Poststop,
        }
    }

    /// The phase that follows from how the tasks fare, over as many steps as there are to take.
    #[must_use]
    pub(crate) fn advance(self, tasks: &Tasks) -> Self {
        let mut phase = self;
        loop {
            let next = phase.step(tasks);
            if next == phase {
                return phase;
            }
            phase = next;
        }
    }

    fn step(self, tasks: &Tasks) -> Self {
        let of = |class| tasks.values().filter(move |task| task.class == class).map(|task| &task.state);
        let mut others = tasks.values().filter(|task| task.class != Class::Poststop);
        if others.all(|task| !task.is_live()) {
            return Self::Poststop;
        }
        let dead = |class| of(class).all(|task| task.state == TaskRunState::Dead);
        let leaves = match self {
            Self::Prestart => {
                of(Class::Prestart).all(|task| task.successful())
                    && of(Class::PrestartSidecar).all(|task| task.state == TaskRunState::Running)
            }
            Self::Main => of(Class::Main).all(|task| task.state != TaskRunState::Pending),
            Self::Poststart => dead(Class::Poststart),
            // It ends with everything else, above.
            Self::WaitAlloc | Self::Poststop => false,
        };
        match self {
            _ if !leaves => self,
            Self::Prestart => Self::Main,
            Self::Main => Self::Poststart,
            Self::Poststart => Self::WaitAlloc,
            Self::WaitAlloc | Self::Poststop => self,
        }
    }
}

#[cfg(test)]
mod tests;
