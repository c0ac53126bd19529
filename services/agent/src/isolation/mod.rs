//! The isolation of tasks: what separates a task from the node and from other tasks. A task gets namespaces, a root of its
//! own, few capabilities, and a filter of system calls.
//!
//! | file | holds |
//! |---|---|
//! | `description` | what a task's isolation consists of: plain data, which drivers make and executors carry out |
//! | `capabilities` | capabilities of Linux: their names, and the sets that a task gets |
//! | `seccomp` | the filter of system calls |
//! | `namespaces` | entering new namespaces, and those of a running task |
//! | `root` | the mounts of a task's root |
//! | `mounts` | mounts that are held open |
//! | `confine` | taking rights away from the own process, before it becomes the task |
//! | `command` | finding the program of a task in its root |
//! | `support` | whether this node can isolate tasks |
//! | `syscalls` | system calls for which no crate has a safe function |
//!
//! The processes that use this module are in `executor::isolated`. They run nothing else, and no thread of theirs does
//! anything meanwhile.

pub(crate) mod capabilities;
pub(crate) mod command;
pub(crate) mod confine;
pub(crate) mod description;
mod mounts;
pub(crate) mod namespaces;
pub(crate) mod root;
mod seccomp;
pub(crate) mod support;
mod syscalls;

pub(crate) use mounts::own_program;
