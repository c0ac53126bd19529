//! A suspended server, which looks like a server on a hanging host: it does not respond, and its connections stay open.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Suspended processes, which resume when this value is dropped.
#[derive(Debug)]
pub struct Paused {
    pids: Vec<Pid>,
}

impl Paused {
    pub(crate) fn new(pids: Vec<Pid>) -> Paused {
        let paused = Paused { pids };
        paused.signal(Signal::SIGSTOP);
        paused
    }

    fn signal(&self, signal: Signal) {
        for pid in &self.pids {
            // The process may have ended.
            let _ = kill(*pid, signal);
        }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.signal(Signal::SIGCONT);
    }
}
