//! A server that is stopped where it is, as by a machine that hangs: it says nothing, and its connections stay.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Processes that go on when this is dropped.
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
            // It may have ended meanwhile.
            let _ = kill(*pid, signal);
        }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.signal(Signal::SIGCONT);
    }
}
