//! Which role may send which command.
//!
//! NATS permits each role to send commands under its own name. The applier checks which commands the role may send:
//! each command names its sender ([`CommandInfo`](crate::command::CommandInfo)).

use crate::command::{Command, RenewLease};
use crate::role::Role;

/// Checks that a process of this role may send the command.
///
/// # Errors
/// Returns the name of the command if the role may not send it.
pub fn may_send(role: Option<Role>, command: &Command) -> Result<(), &'static str> {
    permitted(role, command.info().sender, command.name())
}

/// Checks that a process of this role may renew the lease.
///
/// # Errors
/// Returns the name of the request if the role may not send it.
pub fn may_renew(role: Option<Role>, renewal: &RenewLease) -> Result<(), &'static str> {
    permitted(role, Role::of_singleton(renewal.service), "RenewLease")
}

fn permitted(role: Option<Role>, sender: Role, request: &'static str) -> Result<(), &'static str> {
    if role == Some(sender) || role == Some(Role::Servers) { Ok(()) } else { Err(request) }
}

#[cfg(test)]
mod tests {
    use model::cluster::Singleton;
    use model::{Epoch, ProcessId};

    use super::*;
    use crate::command::TakeLease;

    fn senders(command: &Command) -> Vec<Role> {
        Role::ALL.into_iter().filter(|role| may_send(Some(*role), command).is_ok()).collect()
    }

    #[test]
    fn each_command_has_one_service_that_sends_it() {
        for command in Command::samples() {
            let senders = senders(&command);
            assert!(may_send(None, &command).is_err(), "an unknown role may send {command:?}");
            assert!(
                matches!(senders[..], [service, Role::Servers] if Role::SERVICES.contains(&service)),
                "{senders:?} may send {command:?}"
            );
        }
    }

    #[test]
    fn a_scheduler_submits_plans_and_nothing_else() {
        let commands =
            Command::samples().into_iter().filter(|command| may_send(Some(Role::Scheduler), command).is_ok());
        for command in commands {
            assert!(matches!(command, Command::SubmitPlan(_)), "{command:?}");
        }
        assert!(Command::samples().iter().any(|command| may_send(Some(Role::Scheduler), command).is_ok()));
    }

    #[test]
    fn a_lease_is_taken_and_renewed_for_the_own_service_only() {
        let process = ProcessId::from_bytes([1; 16]);
        for service in Singleton::ALL.iter().copied() {
            let own = Role::of_singleton(service);
            assert_eq!(
                senders(&Command::TakeLease(TakeLease { service, process, gone: None })),
                [own, Role::Servers]
            );
            let renewal = RenewLease { service, process, epoch: Epoch(1) };
            let renewers = Role::ALL.into_iter().filter(|role| may_renew(Some(*role), &renewal).is_ok());
            assert_eq!(renewers.collect::<Vec<_>>(), [own, Role::Servers]);
        }
    }
}
