//! Settings of templates.

use std::time::Duration;

use clap::Parser as _;

/// Settings of templates.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Agent")]
pub struct TemplateArgs {
    /// Let templates read files outside of their allocation.
    #[arg(long, env = "DROVER_TEMPLATE_DISABLE_FILE_SANDBOX")]
    pub template_disable_file_sandbox: bool,
    /// Functions that templates may not call.
    #[arg(long, env = "DROVER_TEMPLATE_FUNCTION_DENYLIST", value_delimiter = ',')]
    pub template_function_denylist: Vec<String>,
    /// How long the values of a template must not change before its file is written again, in milliseconds, for templates
    /// without `wait`.
    #[arg(long, env = "DROVER_TEMPLATE_WAIT_MIN_MS", default_value_t = 0)]
    pub template_wait_min_ms: u32,
    /// How long a template waits at most for its values, in milliseconds; 0 is four times the minimum.
    #[arg(long, env = "DROVER_TEMPLATE_WAIT_MAX_MS", default_value_t = 0)]
    pub template_wait_max_ms: u32,
    /// The least that `wait.min` of a template may be, in milliseconds.
    #[arg(long, env = "DROVER_TEMPLATE_WAIT_BOUND_MIN_MS", default_value_t = 0)]
    pub template_wait_bound_min_ms: u32,
    /// The most that `wait.max` of a template may be, in milliseconds; 0 is no limit.
    #[arg(long, env = "DROVER_TEMPLATE_WAIT_BOUND_MAX_MS", default_value_t = 0)]
    pub template_wait_bound_max_ms: u32,
}

impl Default for TemplateArgs {
    /// The settings without any flags. Environment variables apply.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct NoFlags {
            #[command(flatten)]
            args: TemplateArgs,
        }
        NoFlags::parse_from(["agent"]).args
    }
}

/// How long a template waits for its values to settle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Time without a change before the file is written.
    pub(crate) min: Duration,
    /// Time after the first change after which the file is written in any case.
    pub(crate) max: Duration,
}

/// The validated settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct TemplateSettings {
    /// Whether templates may read files outside of their allocation.
    pub(crate) disable_file_sandbox: bool,
    /// The functions that templates may not call.
    pub(crate) denied: Vec<String>,
    /// The wait of templates that name none.
    wait: Wait,
    /// The least wait.
    bound_min: Duration,
    /// The greatest wait; `None` is no limit.
    bound_max: Option<Duration>,
}

/// How many times the minimum a maximum is that is not given.
const DEFAULT_MAX_FACTOR: u32 = 4;

impl TemplateSettings {
    /// Validates the settings.
    pub(crate) fn new(args: TemplateArgs) -> anyhow::Result<Self> {
        let millis = |number: u32| Duration::from_millis(number.into());
        let denied: Vec<String> =
            args.template_function_denylist.into_iter().filter(|name| !name.is_empty()).collect();
        if let Some(unknown) = denied.iter().find(|name| !go_template::is_known(name)) {
            anyhow::bail!("--template-function-denylist: there is no function {unknown:?}");
        }
        let (bound_min, bound_max) =
            (millis(args.template_wait_bound_min_ms), millis(args.template_wait_bound_max_ms));
        anyhow::ensure!(
            bound_max.is_zero() || bound_min <= bound_max,
            "template-wait-bound-min-ms must not be greater than template-wait-bound-max-ms"
        );
        let max = Some(millis(args.template_wait_max_ms)).filter(|max| !max.is_zero());
        Ok(Self {
            disable_file_sandbox: args.template_disable_file_sandbox,
            denied,
            wait: ordered(millis(args.template_wait_min_ms), max),
            bound_min,
            bound_max: Some(bound_max).filter(|max| !max.is_zero()),
        })
    }

    /// The wait of a template, within the operator's bounds.
    pub(crate) fn wait(&self, min: Option<Duration>, max: Option<Duration>) -> Wait {
        let Wait { min, max } = match (min, max) {
            (None, None) => self.wait,
            (min, max) => ordered(min.unwrap_or(self.wait.min), max),
        };
        let min = min.max(self.bound_min);
        let max = max.max(min);
        match self.bound_max {
            Some(bound) => Wait { min: min.min(bound), max: max.min(bound) },
            None => Wait { min, max },
        }
    }
}

fn ordered(min: Duration, max: Option<Duration>) -> Wait {
    let max = max.unwrap_or_else(|| min.saturating_mul(DEFAULT_MAX_FACTOR));
    Wait { min, max: max.max(min) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_template_waits_as_its_job_says_within_the_operators_bounds() {
        let settings = TemplateSettings::new(TemplateArgs::default()).unwrap();
        assert_eq!(settings.wait(None, None), Wait::default());
        assert_eq!(settings.wait(Some(secs(2)), None), Wait { min: secs(2), max: secs(8) });
        assert_eq!(settings.wait(Some(secs(2)), Some(secs(1))), Wait { min: secs(2), max: secs(2) });
        let bounded = TemplateSettings {
            wait: Wait { min: secs(5), max: secs(60) },
            bound_min: secs(3),
            bound_max: Some(secs(10)),
            ..TemplateSettings::default()
        };
        assert_eq!(bounded.wait(None, None), Wait { min: secs(5), max: secs(10) });
        assert_eq!(bounded.wait(Some(secs(1)), Some(secs(2))), Wait { min: secs(3), max: secs(3) });
    }

    #[test]
    fn a_function_that_does_not_exist_cannot_be_denied() {
        let args = |name: &str| TemplateArgs {
            template_function_denylist: vec![name.to_owned()],
            ..TemplateArgs::default()
        };
        assert_eq!(TemplateSettings::new(args("file")).unwrap().denied, ["file"]);
        let error = TemplateSettings::new(args("nofile")).unwrap_err().to_string();
        assert!(error.ends_with("there is no function \"nofile\""), "{error}");
    }
}
