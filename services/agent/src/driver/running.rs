//! The tasks that are running, for those who ask about them or act on them: resource usage, commands inside tasks, signals.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{AllocId, Text};

use super::Running;

/// A task of an allocation.
type Key = (AllocId, Text);

/// The tasks that are running. The runner of each task adds it when the task has started, and removes it when it has ended.
#[derive(Clone, Default)]
pub(crate) struct RunningTasks(Arc<Mutex<BTreeMap<Key, Arc<dyn Running>>>>);

/// Keeps a task among the running ones until it is dropped.
pub(crate) struct Listed {
    tasks: RunningTasks,
    key: Key,
    task: Arc<dyn Running>,
}

impl RunningTasks {
    /// Adds a task until the returned value is dropped.
    #[must_use = "dropping it removes the task"]
    pub(crate) fn add(&self, alloc: AllocId, name: &Text, task: &Arc<dyn Running>) -> Listed {
        let key = (alloc, Text::clone(name));
        self.lock().insert(key.clone(), Arc::clone(task));
        Listed { tasks: self.clone(), key, task: Arc::clone(task) }
    }

    /// A task, if it is running.
    pub(crate) fn get(&self, alloc: AllocId, task: &str) -> Option<Arc<dyn Running>> {
        self.lock().get(&(alloc, task.into())).cloned()
    }

    /// The running tasks of an allocation by name.
    pub(crate) fn of_alloc(&self, alloc: AllocId) -> Vec<(Text, Arc<dyn Running>)> {
        let tasks = self.lock();
        let own = tasks.range((alloc, Text::default())..).take_while(|((other, _), _)| *other == alloc);
        own.map(|((_, name), task)| (Text::clone(name), Arc::clone(task))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<dyn Running>>> {
        // A poisoned lock is harmless, because each change is a single step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut tasks = self.tasks.lock();
        // A later start of the task may have taken its place.
        if tasks.get(&self.key).is_some_and(|task| Arc::ptr_eq(task, &self.task)) {
            tasks.remove(&self.key);
        }
    }
}
