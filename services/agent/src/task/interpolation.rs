//! Interpolation of `${…}` in job files with facts of the node and variables of the task (A-15.5).

use std::collections::BTreeMap;
use std::fmt::Display;

use model::Map;
use serde_json::Value;

use crate::node::facts::NodeFacts;

/// Maximum size of the texts of a task's environment, and of its driver configuration, after interpolation, in bytes. A
/// name takes a few bytes and may stand for a long text, which may have contained such names itself.
const BYTES_MAX: usize = 8 << 20;
/// Maximum length of a name in error messages, in bytes.
const SHOWN_BYTES_MAX: usize = 100;

/// Why a text cannot be interpolated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InterpolationError {
    /// Nothing has this name.
    #[error(
        "refers to ${{{0}}}, which is unknown here: names are those of the task's environment variables, and \
         node.NAME, attr.KEY and meta.KEY of the node; to pass ${{{0}}} as text, write $${{{0}}}"
    )]
    Unknown(String),
    /// The closing brace is missing.
    #[error("contains ${{ without a closing brace; to pass ${{ as text, write $${{")]
    Unclosed,
    /// The result would be too long.
    #[error(
        "makes the texts grow to more than {max} bytes: the names in them stand for too much text",
        max = BYTES_MAX
    )]
    TooLong,
}

/// Replaces names in the texts of a task, up to [`BYTES_MAX`] bytes.
#[derive(Debug)]
pub(crate) struct Interpolator<'a> {
    node: &'a NodeFacts,
    bytes_left: usize,
}

impl<'a> Interpolator<'a> {
    pub(crate) fn new(node: &'a NodeFacts) -> Self {
        Self { node, bytes_left: BYTES_MAX }
    }

    /// Replaces names by their values. Unknown names stay as they are.
    ///
    /// # Errors
    /// If the texts become too long.
    pub(crate) fn fill(
        &mut self,
        text: &str,
        env: &BTreeMap<String, String>,
    ) -> Result<String, InterpolationError> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, tail)) = after.split_once('}') else { break };
            self.push(&mut filled, before)?;
            match self.find(name.trim(), env) {
                Some(value) => self.push(&mut filled, &value)?,
                None => ["${", name, "}"].into_iter().try_for_each(|part| self.push(&mut filled, part))?,
            }
            rest = tail;
        }
        self.push(&mut filled, rest)?;
        Ok(filled)
    }

    /// Interpolates every string of a driver's configuration, except keys. An unknown name is an error there, because
    /// the text would become a part of a command. `$${` stands for `${`.
    ///
    /// # Errors
    /// If a name is unknown, or the texts become too long. The message says where.
    pub(crate) fn fill_config(
        &mut self,
        config: &Map<String, Value>,
        env: &BTreeMap<String, String>,
    ) -> Result<Map<String, Value>, String> {
        let filled = config.iter().map(|(key, value)| -> Result<_, Located> {
            let value = self.fill_value(value, env).map_err(|error| error.below(key))?;
            Ok((key.clone(), value))
        });
        filled
            .collect::<Result<_, Located>>()
            .map_err(|Located { place, error }| format!("driver configuration: {place} {error}"))
    }

    fn fill_value(&mut self, value: &Value, env: &BTreeMap<String, String>) -> Result<Value, Located> {
        Ok(match value {
            Value::String(text) => Value::String(self.fill_strictly(text, env)?),
            Value::Array(items) => {
                let filled = items.iter().enumerate().map(|(position, item)| {
                    self.fill_value(item, env).map_err(|error| error.below(format_args!("[{position}]")))
                });
                Value::Array(filled.collect::<Result<_, Located>>()?)
            }
            Value::Object(members) => {
                let filled = members.iter().map(|(key, value)| -> Result<_, Located> {
                    let value = self.fill_value(value, env);
                    Ok((key.clone(), value.map_err(|error| error.below(format_args!(".{key}")))?))
                });
                Value::Object(filled.collect::<Result<_, Located>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    fn fill_strictly(
        &mut self,
        text: &str,
        env: &BTreeMap<String, String>,
    ) -> Result<String, InterpolationError> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                self.push(&mut filled, before)?;
                self.push(&mut filled, "${")?;
                rest = after;
                continue;
            }
            let (name, tail) = after.split_once('}').ok_or(InterpolationError::Unclosed)?;
            let value = self.find(name.trim(), env).ok_or_else(|| {
                let shown = &name[..name.floor_char_boundary(SHOWN_BYTES_MAX)];
                InterpolationError::Unknown(shown.to_owned())
            })?;
            self.push(&mut filled, before)?;
            self.push(&mut filled, &value)?;
            rest = tail;
        }
        self.push(&mut filled, rest)?;
        Ok(filled)
    }

    fn push(&mut self, filled: &mut String, part: &str) -> Result<(), InterpolationError> {
        self.bytes_left = self.bytes_left.checked_sub(part.len()).ok_or(InterpolationError::TooLong)?;
        filled.push_str(part);
        Ok(())
    }

    /// The value of a name. Keys may be written after a dot or in brackets: `meta.rack`, `meta["rack"]`.
    fn find(&self, name: &str, env: &BTreeMap<String, String>) -> Option<String> {
        let key_of = |object: &str| {
            let key = name.strip_prefix(object).and_then(|rest| rest.strip_prefix("[\""));
            key.and_then(|rest| rest.strip_suffix("\"]"))
        };
        if let Some(key) = key_of("env") {
            return env.get(key).cloned();
        }
        for object in ["attr", "meta"] {
            if let Some(key) = key_of(object) {
                return self.node.find(&format!("{object}.{key}"));
            }
        }
        self.node.find(name).or_else(|| env.get(name).cloned())
    }
}

/// An error in a driver's configuration, and the place of the text.
struct Located {
    place: String,
    error: InterpolationError,
}

impl From<InterpolationError> for Located {
    fn from(error: InterpolationError) -> Self {
        Self { place: String::new(), error }
    }
}

impl Located {
    /// The same error, located in a list or map that contains the value.
    fn below(self, step: impl Display) -> Self {
        Self { place: format!("{step}{}", self.place), error: self.error }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> NodeFacts {
        NodeFacts {
            name: "one".into(),
            attributes: BTreeMap::from([("kernel.name".into(), "linux".into())]),
            meta: BTreeMap::<model::Text, model::Text>::from([("rack".into(), "r7".into())]).into(),
            ..NodeFacts::default()
        }
    }

    fn env() -> BTreeMap<String, String> {
        BTreeMap::from([("PORT".to_owned(), "8080".to_owned())])
    }

    fn interpolated(text: &str) -> String {
        Interpolator::new(&node()).fill(text, &env()).unwrap()
    }

    fn config_of(config: Value) -> Result<Value, String> {
        let Value::Object(config) = config else { unreachable!() };
        let filled = Interpolator::new(&node()).fill_config(&config.into_iter().collect(), &env());
        filled.map(|config| json!(config))
    }

    #[test]
    fn names_are_replaced_by_what_they_stand_for() {
        assert_eq!(interpolated("${node.unique.name}/${attr.kernel.name}/${meta.rack}"), "one/linux/r7");
        assert_eq!(interpolated(r#"${PORT} ${ PORT } ${env["PORT"]}"#), "8080 8080 8080");
        assert_eq!(interpolated(r#"${attr["kernel.name"]} ${meta["rack"]}"#), "linux r7");
    }

    #[test]
    fn unknown_references_stay_as_they_are_written() {
        for text in ["${attr.cpu.arch}", "${HOME", "$PORT", r#"${env["HOME"]}"#, "${}", "${node.unique.id}"] {
            assert_eq!(interpolated(text), text);
        }
        assert_eq!(interpolated("${X} ${PORT} ${"), "${X} 8080 ${");
    }

    #[test]
    fn a_configuration_is_filled_in_at_every_depth() {
        let config = json!({ "args": ["-p", "${PORT}"], "deep": { "a": "${PORT}", "n": 1 } });
        let filled = json!({ "args": ["-p", "8080"], "deep": { "a": "8080", "n": 1 } });
        assert_eq!(config_of(config), Ok(filled));
    }

    #[test]
    fn unknown_references_in_a_drivers_configuration_are_refused() {
        let error = config_of(json!({ "args": ["-p", "${NOMAD_PROT_http}"] })).unwrap_err();
        assert!(
            error.starts_with("driver configuration: args[1] refers to ${NOMAD_PROT_http}, which is unknown"),
            "{error}"
        );
        assert!(error.ends_with("write $${NOMAD_PROT_http}"), "{error}");
        let nested = config_of(json!({ "mount": [{ "source": "x${attr.none}" }] })).unwrap_err();
        assert!(nested.contains("mount[0].source refers to ${attr.none},"), "{nested}");
        for unknown in ["${}", "${HOME:-/root}", r#"${env["HOME"]}"#, "${node.unique.id}"] {
            assert!(config_of(json!({ "command": unknown })).unwrap_err().contains(unknown), "{unknown}");
        }
        let unclosed = config_of(json!({ "command": "${PORT" })).unwrap_err();
        assert!(unclosed.contains("command contains ${ without a closing brace"), "{unclosed}");
        let long = config_of(json!({ "command": format!("${{{}}}", "x".repeat(100_000)) })).unwrap_err();
        assert!(long.len() < 1_000, "{}", long.len());
    }

    #[test]
    fn a_doubled_dollar_sign_is_one() {
        for (text, filled) in [
            ("$${HOME}", "${HOME}"),
            ("$$${HOME}", "$${HOME}"),
            ("$HOME $$ 5$ ${PORT}$", "$HOME $$ 5$ 8080$"),
            ("$${a ${PORT}", "${a 8080"),
        ] {
            assert_eq!(config_of(json!({ "command": text })), Ok(json!({ "command": filled })), "{text}");
        }
    }

    #[test]
    fn texts_do_not_grow_without_bounds() {
        let env = BTreeMap::from([("LONG".to_owned(), "x".repeat(BYTES_MAX / 10))]);
        let node = node();
        let mut interpolator = Interpolator::new(&node);
        assert!(interpolator.fill(&"${LONG}".repeat(5), &env).is_ok());
        let too_long = interpolator.fill(&"${LONG}".repeat(6), &env);
        assert_eq!(too_long, Err(InterpolationError::TooLong), "both count together");
        let config = [("args".to_owned(), json!(["${LONG}".repeat(11)]))].into_iter().collect();
        let error = Interpolator::new(&node).fill_config(&config, &env).unwrap_err();
        assert!(error.contains("args[0] makes the texts grow to more than 8388608 bytes"), "{error}");
    }
}
