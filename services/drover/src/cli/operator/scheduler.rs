//! `drover operator scheduler …`: shows and changes the scheduler's settings.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use api_types::{PreemptionConfig, SchedulerConfiguration};
use serde::Deserialize;
use serde_json::Value;

use crate::cli::object::Object;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, WithApi, flags, format};
use crate::command::commands;

const CONFIGURATION: &str = "/v1/operator/scheduler/configuration";

commands! {
    /// Shows and changes the settings of the schedulers.
    Command {
        GetConfig(WithApi<Get>),
        SetConfig(WithApi<Set>),
    }
}

/// Shows the settings of the schedulers.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Get {
    #[command(flatten)]
    object: Object,
}

/// Changes settings of the schedulers. Settings without a flag stay unchanged.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Set {
    /// Change the settings only if their modify index is this.
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
    #[command(flatten)]
    settings: Settings,
}

/// The settings that can be changed.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
struct Settings {
    /// The algorithm that chooses nodes: `binpack`, `spread` or `align`.
    #[arg(long, value_name = "ALGORITHM")]
    scheduler_algorithm: Option<String>,
    /// Whether tasks may use more memory than they reserve, up to their `memory_max`.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    memory_oversubscription: Option<bool>,
    /// Whether jobs may be registered only with a management token.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    reject_job_registration: Option<bool>,
    /// Whether the evaluation broker pauses: schedulers then get no evaluations.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    pause_eval_broker: Option<bool>,
    /// Whether batch jobs may preempt other jobs.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    preempt_batch_scheduler: Option<bool>,
    /// Whether service jobs may preempt other jobs.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    preempt_service_scheduler: Option<bool>,
    /// Whether sysbatch jobs may preempt other jobs.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    preempt_sysbatch_scheduler: Option<bool>,
    /// Whether system jobs may preempt other jobs.
    #[arg(long, value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    preempt_system_scheduler: Option<bool>,
    /// How many nodes a scheduler that samples nodes examines. It is stored and has no effect: schedulers examine every
    /// node.
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

impl ApiCommand for Get {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        if self.object.is_requested() {
            let answer: Value = session.client.get(CONFIGURATION, &[]).await?;
            self.object.print(session.output, &answer)?;
            return Ok(ExitCode::SUCCESS);
        }
        let answer: Answer = session.client.get(CONFIGURATION, &[]).await?;
        let mut page = Page::default();
        show(&mut page, &answer.scheduler_config);
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}

impl ApiCommand for Set {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        if self.settings.node_limit_for_feasibility_checks.is_some_and(|limit| limit > 0) {
            let text = "-node-limit-for-feasibility-checks has no effect: schedulers examine every node";
            session.output.error(&format!("Warning: {text}"));
        }
        let answer: Answer = session.client.get(CONFIGURATION, &[]).await?;
        let mut config = answer.scheduler_config;
        // A change replaces all settings. The index protects changes that somebody else has made since they were read.
        let current = config.modify_index.unwrap_or_default();
        self.settings.apply(&mut config);
        let index = self.check_index.unwrap_or(current).to_string();
        let updated = session.client.put_with(CONFIGURATION, &[("cas", index.as_str())], &config).await;
        let updated: Updated = updated.context("Error setting scheduler configuration")?;
        ensure!(updated.updated, conflict(self.check_index, current));
        session.output.line("Scheduler configuration updated!");
        Ok(ExitCode::SUCCESS)
    }
}

/// The message if the settings have another modify index than the change expects (`docs/rules/cli.md` §12).
fn conflict(check_index: Option<u64>, current: u64) -> String {
    match check_index {
        Some(index) => format!(
            "Error performing check index set: check-index {index} does not match does not match current state value \
             {current}"
        ),
        None => "Somebody else has just changed the settings. Nothing was changed: try again".to_owned(),
    }
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
    fn an_index_that_is_given_counts_even_if_it_is_0() {
        assert_eq!(
            conflict(Some(0), 1404),
            "Error performing check index set: check-index 0 does not match does not match current state value 1404"
        );
        assert!(conflict(None, 1404).ends_with("try again"));
    }

    #[test]
    fn unnamed_settings_stay() {
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
