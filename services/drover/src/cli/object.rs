//! Output for programs: the API's object as JSON, or formatted with a Go template (`docs/rules/cli.md` 1.5).

use std::fmt;

use anyhow::{anyhow, ensure};
use gotmpl::{Template, TemplateError, to_value};
use serde::Serialize as _;
use serde_json::Value;

use super::output::Output;

/// Flags that print the API's object instead of text.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Object {
    /// Print the API's object as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the API's object, formatted with this Go template.
    #[arg(short, value_name = "TEMPLATE", conflicts_with = "json")]
    template: Option<String>,
}

impl Object {
    /// Whether one of the flags is set.
    pub(crate) fn is_requested(&self) -> bool {
        self.json || self.template.is_some()
    }

    /// Prints the object.
    ///
    /// # Errors
    /// If the template is invalid, or cannot be executed on the object.
    pub(crate) fn print(&self, output: Output, object: &Value) -> anyhow::Result<()> {
        let text = match &self.template {
            Some(template) => format_with_template(template, object)?,
            None => indented(object),
        };
        output.line(&text);
        Ok(())
    }
}

/// Maximum number of iterations of all `range` actions. The largest lists have a million elements.
const ITERATIONS_MAX: u64 = 1_000_000;
/// Maximum size of the text that a template writes, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Formats an object with a Go template.
///
/// # Errors
/// If the template is invalid, cannot be executed on the object, or writes too much.
pub(crate) fn format_with_template(template: &str, object: &Value) -> anyhow::Result<String> {
    let mut text = LimitedText::default();
    let mut format = || {
        let template = Template::new("-t").max_range_iters(ITERATIONS_MAX).parse(template)?;
        template.execute_fmt(&mut text, &to_value(object)?)
    };
    let written = format();
    ensure!(!text.is_full, "the template writes more than {TEXT_BYTES_MAX} bytes");
    written.map_err(|error: TemplateError| {
        // Only errors of syntax begin with this word already.
        let text = error.to_string();
        anyhow!("Error formatting the data: template: {}", text.strip_prefix("template: ").unwrap_or(&text))
    })?;
    Ok(text.text)
}

/// Text of at most [`TEXT_BYTES_MAX`].
#[derive(Default)]
struct LimitedText {
    text: String,
    is_full: bool,
}

impl fmt::Write for LimitedText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.text.len() + more.len() > TEXT_BYTES_MAX {
            self.is_full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

/// An object as JSON, indented by four spaces as the API does.
pub(crate) fn indented(value: &Value) -> String {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    value.serialize(&mut serializer).expect("a JSON value can be written");
    String::from_utf8(text).expect("JSON is UTF-8")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_are_those_of_go() {
        let jobs = json!([
            { "ID": "web", "Priority": 50, "Stop": false, "Meta": { "team": "a" }, "Datacenters": ["dc1", "dc2"] },
            { "ID": "cron", "Priority": 70, "Stop": true, "Meta": null, "Datacenters": [] },
        ]);
        let text = |template| format_with_template(template, &jobs).unwrap();
        assert_eq!(text("{{range .}}{{.ID}} {{end}}"), "web cron ");
        assert_eq!(
            text(r#"{{range .}}{{if not .Stop}}{{printf "%s=%d" .ID .Priority}}{{end}}{{end}}"#),
            "web=50"
        );
        assert_eq!(
            text("{{len .}} {{(index . 0).Meta.team}} {{index (index . 0).Datacenters 1}}"),
            "2 a dc2"
        );
        assert_eq!(text("{{with (index . 1).Meta}}some{{else}}none{{end}}"), "none");
    }

    #[test]
    fn errors_of_templates_are_explained() {
        let error =
            |template| format!("{:#}", format_with_template(template, &json!({ "ID": "web" })).unwrap_err());
        for (template, cause) in [("{{.ID", "-t:1:"), ("{{.ID.Name}}", ""), ("{{nothing .}}", "")] {
            let text = error(template);
            assert!(text.starts_with(&format!("Error formatting the data: template: {cause}")), "{text}");
            assert_eq!(text.matches("template: ").count(), 1, "{text}");
        }
        assert!(error("{{nothing .}}").contains("nothing"));
        let huge = r#"{{range 10000}}{{printf "%60000d" 1}}{{end}}"#;
        assert_eq!(error(huge), "the template writes more than 67108864 bytes");
    }
}
