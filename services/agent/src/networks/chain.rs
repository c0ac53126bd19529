//! Runs a list of plugins for one allocation: each gets the result of the one before it.

use serde_json::{Map, Value};

use super::conflist::ConfList;
use super::plugin::{Action, PluginError, Plugins, Target};

/// A list of plugins and what it is run for.
pub(crate) struct Chain<'a> {
    /// The plugins.
    pub(crate) plugins: &'a Plugins,
    /// The list.
    pub(crate) list: &'a ConfList,
    /// The allocation.
    pub(crate) target: &'a Target,
    /// Values of capabilities.
    pub(crate) abilities: &'a Map<String, Value>,
}

/// The allocation was not attached.
#[derive(Debug)]
pub(crate) struct NotAttached {
    /// Why not.
    pub(crate) error: PluginError,
    /// The result of the plugins before the one that failed. They are undone with it.
    pub(crate) result: Option<Value>,
}

impl Chain<'_> {
    /// Attaches the allocation. Returns the result of the last plugin that has one. `note` gets each result before the
    /// next plugin runs.
    pub(crate) async fn add(&self, note: &(impl Fn(&Value) + Sync)) -> Result<Value, NotAttached> {
        let mut result = None;
        for (position, name) in self.list.types().enumerate() {
            let Some(input) = self.list.input(position, self.abilities, result.as_ref()) else { continue };
            match self.plugins.run(name, Action::Add, self.target, &input).await {
                Ok(Some(next)) => {
                    note(&next);
                    result = Some(next);
                }
                Ok(None) => {}
                Err(error) => return Err(NotAttached { error, result }),
            }
        }
        Ok(result.unwrap_or_default())
    }

    /// Checks what those plugins have made that `is_checked`, as far as they can tell.
    pub(crate) async fn check(
        &self,
        result: &Value,
        is_checked: impl Fn(&str) -> bool + Send,
    ) -> Result<(), PluginError> {
        for (position, name) in self.list.types().enumerate() {
            if !self.list.can_check(position) || !is_checked(name) {
                continue;
            }
            let Some(input) = self.list.input(position, self.abilities, Some(result)) else { continue };
            self.plugins.run(name, Action::Check, self.target, &input).await?;
        }
        Ok(())
    }

    /// Removes what the plugins have made, from the last plugin to the first. A failure does not stop the others.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) async fn del(&self, result: Option<&Value>) -> Result<(), PluginError> {
        let mut outcome = Ok(());
        let names: Vec<_> = self.list.types().enumerate().collect();
        for (position, name) in names.into_iter().rev() {
            let Some(input) = self.list.input(position, self.abilities, result) else { continue };
            let removed = self.plugins.run(name, Action::Del, self.target, &input).await;
            outcome = outcome.and(removed.map(|_| ()));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    /// A plugin that appends what it is asked to a file, and answers with its name and the result before it.
    const SCRIPT: &str = r#"#!/bin/sh
        name=$(basename "$0"); input=$(cat)
        echo "$name $CNI_COMMAND" >> "$(dirname "$0")/log"
        if [ "$CNI_COMMAND" = DEL ] && [ -e "$(dirname "$0")/broken" ]; then echo '{"msg":"broken"}'; exit 1; fi
        if [ "$CNI_COMMAND" = ADD ]; then echo "{\"by\":\"$name\",\"input\":$input}"; fi
    "#;

    #[tokio::test]
    async fn plugins_run_in_order_and_are_undone_in_reverse() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["one", "two"] {
            let path = dir.path().join(name);
            fs::write(&path, SCRIPT).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
        let list = r#"{"cniVersion":"1.0.0","name":"lan","plugins":[{"type":"one"},{"type":"two"}]}"#;
        let (plugins, list) = (Plugins::new(vec![dir.path().to_owned()]), ConfList::read(list).unwrap());
        let (target, abilities) = (Target::default(), Map::new());
        let chain = Chain { plugins: &plugins, list: &list, target: &target, abilities: &abilities };
        let noted = Mutex::new(Vec::new());
        let note = |result: &Value| noted.lock().unwrap().push(result["by"].clone());
        let result = chain.add(&note).await.unwrap();
        assert_eq!(*noted.lock().unwrap(), [json!("one"), json!("two")]);
        assert_eq!((&result["by"], &result["input"]["prevResult"]["by"]), (&json!("two"), &json!("one")));
        chain.check(&result, |name| name == "one").await.unwrap();
        chain.del(Some(&result)).await.unwrap();
        fs::write(dir.path().join("broken"), "").unwrap();
        let error = chain.del(None).await.unwrap_err().to_string();
        assert!(error.ends_with("/two failed at DEL: broken"), "{error}");
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        assert_eq!(log, "one ADD\ntwo ADD\none CHECK\ntwo DEL\none DEL\ntwo DEL\none DEL\n");
        fs::remove_file(dir.path().join("two")).unwrap();
        let failed = chain.add(&|_| ()).await.unwrap_err();
        assert!(matches!(failed.error, PluginError::NotFound { .. }), "{}", failed.error);
        assert_eq!(failed.result.unwrap()["by"], "one", "it is undone with its result");
    }
}
