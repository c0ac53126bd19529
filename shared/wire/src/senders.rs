//! Which role may send which command.
//!
//! NATS permits each role to send commands under its own name. The applier checks with this table which commands the
//! role may send.

use crate::command::{Command, RenewLease};
use crate::role::Role;

/// The role of the service that sends the command.
fn sender(command: &Command) -> Role {
    match command {
        Command::RegisterJob(_)
        | Command::DeregisterJob(_)
        | Command::EvaluateJob(_)
        | Command::Transition(_)
        | Command::DeleteEvals(_)
        | Command::DeregisterNodes(_)
        | Command::SetEligibility(_)
        | Command::FailDeployment(_)
        | Command::EvaluateNode(_)
        | Command::SetNamespace(_)
        | Command::DeleteNamespace(_)
        | Command::SetNodePool(_)
        | Command::DeleteNodePool(_)
        | Command::SetSchedulerConfig(_) => Role::Api,
        Command::SubmitPlan(_) => Role::Scheduler,
        Command::UpdateEvals(_) => Role::EvalBroker,
        Command::RegisterNode(_) | Command::UpdateNodes(_) | Command::ReportAllocs(_) => Role::NodeTracker,
        Command::UpdateDeployments(_) => Role::DeploymentWatcher,
        Command::CollectGarbage(_) | Command::AddRootKey(_) => Role::PlanApplier,
        Command::TakeLease(take) => Role::of_singleton(take.service),
    }
}

/// Checks that a process of this role may send the command.
///
/// # Errors
/// Returns the name of the command if the role may not send it.
pub fn may_send(role: Option<Role>, command: &Command) -> Result<(), &'static str> {
    permitted(role, sender(command), command.name())
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
    use crate::samples;

    fn senders(command: &Command) -> Vec<Role> {
        Role::ALL.into_iter().filter(|role| may_send(Some(*role), command).is_ok()).collect()
    }

    #[test]
    fn each_command_has_one_service_that_sends_it() {
        for command in samples::commands() {
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
        let commands = samples::commands()
            .into_iter()
            .filter(|command| may_send(Some(Role::Scheduler), command).is_ok());
        for command in commands {
            assert!(matches!(command, Command::SubmitPlan(_)), "{command:?}");
        }
        assert!(samples::commands().iter().any(|command| may_send(Some(Role::Scheduler), command).is_ok()));
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
