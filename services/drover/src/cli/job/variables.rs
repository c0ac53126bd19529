//! Values for a job file's variables, from the environment, files and flags, as one text that the parser reads
//! (`spec/jobspec.md` §5). Pure; what a value must be is left to the parser.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use hcl_edit::Span as _;
use hcl_edit::expr::Expression;
use hcl_edit::structure::Body;

/// Values that were given, the last one of each name.
#[derive(Debug)]
pub(super) struct Given {
    /// The variables that the job file declares, if it could be read so far.
    declared: BTreeSet<String>,
    /// Those of a type other than string or number: their values are expressions.
    structured: BTreeSet<String>,
    /// Expressions by name.
    values: BTreeMap<String, String>,
}

impl Given {
    /// For a job file; one that cannot be read declares nothing, and the parser will say what is wrong with it.
    pub(super) fn of(source: &str) -> Self {
        let body = hcl_edit::parser::parse_body(source).unwrap_or_default();
        let mut given =
            Self { declared: BTreeSet::new(), structured: BTreeSet::new(), values: BTreeMap::new() };
        for block in body.get_blocks("variables") {
            given.declared.extend(block.body.attributes().map(|attribute| attribute.key.value().to_string()));
        }
        for block in body.get_blocks("variable") {
            let Some(name) = block.labels.first().map(|label| label.as_str().to_owned()) else { continue };
            if is_structured(&block.body) {
                given.structured.insert(name.clone());
            }
            given.declared.insert(name);
        }
        given
    }

    /// A variable of the environment; those that the job file does not declare may be for another.
    pub(super) fn environment(&mut self, name: &str, value: &str) {
        if self.declared.contains(name) {
            self.set(name, value);
        }
    }

    /// The values in a file.
    pub(super) fn file(&mut self, text: &str) -> anyhow::Result<()> {
        let body = hcl_edit::parser::parse_body(text)?;
        for attribute in body.attributes() {
            let expression = text.get(attribute.value.span().unwrap_or_default()).unwrap_or_default();
            self.values.insert(attribute.key.value().to_string(), expression.to_owned());
        }
        match body.blocks().next() {
            Some(block) => bail!("unexpected block \"{}\": only values are expected", block.ident.value()),
            None => Ok(()),
        }
    }

    /// A value that was said with a flag.
    pub(super) fn flag(&mut self, name: &str, value: &str, strict: bool) -> anyhow::Result<()> {
        if self.declared.contains(name) {
            self.set(name, value);
        } else if strict {
            bail!("Undefined -var variable: the job file declares no variable \"{name}\"");
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) {
        let is_expression = self.structured.contains(name);
        let expression = if is_expression { value.to_owned() } else { quoted(value) };
        self.values.insert(name.to_owned(), expression);
    }

    /// The values as attributes, a line each.
    pub(super) fn into_text(self) -> String {
        self.values.into_iter().map(|(name, expression)| format!("{name} = {expression}\n")).collect()
    }
}

fn is_structured(variable: &Body) -> bool {
    let Some(kind) = variable.get_attribute("type") else { return false };
    let named = |name: &str| matches!(name, "string" | "number");
    if let Expression::Variable(name) = &kind.value {
        !named(name.value().as_str())
    } else if let Expression::String(name) = &kind.value {
        !named(name.value())
    } else {
        true
    }
}

/// A text as an expression that means just that text.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    // What would begin a template.
    quoted.replace("${", "$${").replace("%{", "%%{")
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "variable \"image\" {\n  type = string\n}\nvariable \"count\" { type = number }\n\
                       variable \"zones\" { type = list(string) }\nvariable \"any\" {}\nvariables {\n  short = 1\n}\n";

    #[test]
    fn later_sources_override_earlier_ones() {
        let mut given = Given::of(JOB);
        given.environment("image", "from the environment");
        given.environment("count", "1");
        given.environment("unknown", "passed over");
        given.file("image = \"from a file\"\nzones = [\n  \"a\",\n]\n").unwrap();
        given.flag("image", "say \"${hi}\"\\", true).unwrap();
        given.flag("any", "[1]", true).unwrap();
        given.flag("short", "2", true).unwrap();
        insta::assert_snapshot!(given.into_text(), @r#"
        any = "[1]"
        count = "1"
        image = "say \"$${hi}\"\\"
        short = "2"
        zones = [
          "a",
        ]
        "#);
    }

    #[test]
    fn values_of_structured_types_are_expressions() {
        let mut given = Given::of(JOB);
        given.flag("zones", "[\"a\", \"b\"]", true).unwrap();
        assert_eq!(given.into_text(), "zones = [\"a\", \"b\"]\n");
    }

    #[test]
    fn what_is_not_declared_is_refused_where_that_is_wanted() {
        let mut given = Given::of(JOB);
        assert!(given.flag("imagE", "x", false).is_ok());
        let error = given.flag("imagE", "x", true).unwrap_err().to_string();
        assert_eq!(error, "Undefined -var variable: the job file declares no variable \"imagE\"");
        assert!(given.file("block {}\n").is_err());
    }
}
