//! `drover operator scheduler …`: shows and changes the scheduler's settings.

use std::process::ExitCode;

use anyhow::ensure;
use api_types::{PreemptionConfig, SchedulerConfiguration};
use serde::Deserialize;
use serde_json::Value;

use crate::cli::page::Page;
use crate::cli::{Session, flags, format};

const CONFIGURATION: &str = "/v1/operator/scheduler/configuration";

/// Shows and changes the scheduler's settings.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Shows the scheduler's settings
    GetConfig(Get),
    /// Changes settings of the scheduler; settings without a flag stay unchanged
    SetConfig(Set),
}

/// Shows the scheduler's settings.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    #[command(flatten)]
    show: flags::Show,
}

/// Changes settings of the scheduler. Settings without a flag stay unchanged.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Set {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// Change the settings only if their modify index is this; 0 stands for the current index.
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
    #[command(flatten)]
    settings: Settings,
}

/// The settings that can be changed.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
struct Settings {
    /// How nodes are chosen: `binpack`, `spread` or `align`.
    #[arg(long, value_name = "ALGORITHM")]
    scheduler_algorithm: Option<String>,
    /// Whether tasks may use more memory than they reserve, up to `memory_max`.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    memory_oversubscription: Option<bool>,
    /// Whether only users with management rights may register jobs.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    reject_job_registration: Option<bool>,
    /// Whether the broker stops handing evaluations to schedulers.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    pause_eval_broker: Option<bool>,
    /// Whether batch jobs may preempt others.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    preempt_batch_scheduler: Option<bool>,
    /// Whether service jobs may preempt others.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    preempt_service_scheduler: Option<bool>,
    /// Whether sysbatch jobs may preempt others.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    preempt_sysbatch_scheduler: Option<bool>,
    /// Whether system jobs may preempt others.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    preempt_system_scheduler: Option<bool>,
    /// Number of nodes that a sampling scheduler examines; 0 is its default.
    #[arg(long, value_name = "COUNT")]
    node_limit_for_feasibility_checks: Option<u64>,
}

/// The server's response with the settings.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Answer {
    scheduler_config: SchedulerConfiguration,
}

/// The server's response to a change.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Updated {
    updated: bool,
}

pub(crate) async fn get(session: Session, args: Get) -> anyhow::Result<ExitCode> {
    if args.show.object.is_requested() {
        let answer: Value = session.client.get(CONFIGURATION, &[]).await?;
        args.show.object.print(session.output, &answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let answer: Answer = session.client.get(CONFIGURATION, &[]).await?;
    let mut page = Page::default();
    show(&mut page, &answer.scheduler_config);
    session.output.page(&page);
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn set(session: Session, args: Set) -> anyhow::Result<ExitCode> {
    let answer: Answer = session.client.get(CONFIGURATION, &[]).await?;
    let mut config = answer.scheduler_config;
    // A change replaces all settings. The index protects changes that somebody else has made since they were read.
    let index = args.check_index.filter(|index| *index > 0).or(config.modify_index).unwrap_or_default();
    args.settings.apply(&mut config);
    let index = index.to_string();
    let updated: Updated =
        session.client.put_with(CONFIGURATION, &[("cas", index.as_str())], &config).await?;
    ensure!(
        updated.updated,
        "The scheduler configuration has a modify index other than {index}: it was not changed. See drover operator \
         scheduler get-config, and try again"
    );
    session.output.line("Scheduler configuration updated!");
    Ok(ExitCode::SUCCESS)
}

impl Settings {
    /// Overrides the settings that have a flag.
    fn apply(&self, config: &mut SchedulerConfiguration) {
        if let Some(algorithm) = &self.scheduler_algorithm {
            config.scheduler_algorithm = Some(algorithm.clone());
        }
        let preemption = config.preemption_config.get_or_insert_default();
        for (setting, value) in [
            (&mut config.memory_oversubscription_enabled, self.memory_oversubscription),
            (&mut config.reject_job_registration, self.reject_job_registration),
            (&mut config.pause_eval_broker, self.pause_eval_broker),
            (&mut preemption.batch_scheduler_enabled, self.preempt_batch_scheduler),
            (&mut preemption.service_scheduler_enabled, self.preempt_service_scheduler),
            (&mut preemption.sys_batch_scheduler_enabled, self.preempt_sysbatch_scheduler),
            (&mut preemption.system_scheduler_enabled, self.preempt_system_scheduler),
        ] {
            *setting = value.or(*setting);
        }
        let limit = &mut config.node_limit_for_feasibility_checks;
        *limit = self.node_limit_for_feasibility_checks.or(*limit);
    }
}

fn show(page: &mut Page, config: &SchedulerConfiguration) {
    let flag = |setting: Option<bool>| setting.unwrap_or_default().to_string();
    let PreemptionConfig {
        system_scheduler_enabled,
        sys_batch_scheduler_enabled,
        batch_scheduler_enabled,
        service_scheduler_enabled,
    } = config.preemption_config.clone().unwrap_or_default();
    page.block(&[
        ("Scheduler Algorithm", format::text(config.scheduler_algorithm.as_ref())),
        ("Memory Oversubscription", flag(config.memory_oversubscription_enabled)),
        ("Reject Job Registration", flag(config.reject_job_registration)),
        ("Pause Eval Broker", flag(config.pause_eval_broker)),
        ("Preemption System Scheduler", flag(system_scheduler_enabled)),
        ("Preemption Service Scheduler", flag(service_scheduler_enabled)),
        ("Preemption Batch Scheduler", flag(batch_scheduler_enabled)),
        ("Preemption SysBatch Scheduler", flag(sys_batch_scheduler_enabled)),
        (
            "Node Limit for Feasibility Checks",
            config.node_limit_for_feasibility_checks.unwrap_or_default().to_string(),
        ),
        ("Modify Index", config.modify_index.unwrap_or_default().to_string()),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays() {
        let preemption =
            PreemptionConfig { system_scheduler_enabled: Some(true), ..PreemptionConfig::default() };
        let mut config = SchedulerConfiguration {
            scheduler_algorithm: Some("binpack".to_owned()),
            preemption_config: Some(preemption),
            memory_oversubscription_enabled: Some(true),
            modify_index: Some(5),
            ..SchedulerConfiguration::default()
        };
        let settings = Settings {
            scheduler_algorithm: Some("spread".to_owned()),
            preempt_batch_scheduler: Some(true),
            memory_oversubscription: Some(false),
            node_limit_for_feasibility_checks: Some(100),
            ..Settings::default()
        };
        settings.apply(&mut config);
        let mut page = Page::default();
        show(&mut page, &config);
        insta::assert_snapshot!(page, @r"
        Scheduler Algorithm               = spread
        Memory Oversubscription           = false
        Reject Job Registration           = false
        Pause Eval Broker                 = false
        Preemption System Scheduler       = true
        Preemption Service Scheduler      = false
        Preemption Batch Scheduler        = true
        Preemption SysBatch Scheduler     = false
        Node Limit for Feasibility Checks = 100
        Modify Index                      = 5
        ");
    }
}
