//! The phases of an allocation: which classes of tasks each allows to start, and when the next one begins. Pure.

use model::alloc::TaskRunState;

use super::class::Class;
use super::status::Tasks;

/// The phase of an allocation, once its set-up is complete. A restored allocation begins with the first phase, too, and
/// advances at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Prestart tasks run.
    Prestart,
    /// Main tasks start.
    Main,
    /// Main tasks have started, and poststart tasks run.
    Poststart,
    /// All tasks run until they end.
    WaitAlloc,
    /// All other tasks have ended, and poststop tasks run. This phase is final.
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

    /// The phase that follows from the states of the tasks, after any number of transitions.
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
        let is_complete = match self {
            Self::Prestart => {
                of(Class::Prestart).all(|task| task.successful())
                    && of(Class::PrestartSidecar).all(|task| task.state == TaskRunState::Running)
            }
            Self::Main => of(Class::Main).all(|task| task.state != TaskRunState::Pending),
            Self::Poststart => dead(Class::Poststart),
            // This phase ends with the end of all tasks, above.
            Self::WaitAlloc | Self::Poststop => false,
        };
        match self {
            _ if !is_complete => self,
            Self::Prestart => Self::Main,
            Self::Main => Self::Poststart,
            Self::Poststart => Self::WaitAlloc,
            Self::WaitAlloc | Self::Poststop => self,
        }
    }
}

#[cfg(test)]
mod tests;
