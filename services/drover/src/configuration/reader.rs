//! Compares a file with the known keys, and reads its blocks.

use std::collections::BTreeMap;
use std::path::Path;

use hcl1::{Body, Item, Kind, Position, Syntax};
use model::features::Feature;

use super::block::{Block, Setting};
use super::keys;
use super::schema::{Key, Support, Type};
use super::values::{self, Mismatch, Scalar};
use super::{Fault, Finding, Report};

/// Reads the body of a file.
pub(super) fn read(file: &Path, syntax: Syntax, body: &Body, report: &mut Report) -> Block {
    Reader { file, syntax, report }.block("", keys::TOP, body, true)
}

struct Reader<'a> {
    file: &'a Path,
    syntax: Syntax,
    report: &'a mut Report,
}

impl Reader<'_> {
    /// Reads a block that may contain `keys`. If `effective` is false, the keys are checked only.
    fn block(&mut self, path: &str, keys: &'static [Key], body: &Body, effective: bool) -> Block {
        let mut block = Block::default();
        let mut unknown: Vec<&Item> = Vec::new();
        let mut given = BTreeMap::new();
        for item in body.items.iter().filter(|item| item.value.kind != Kind::Null) {
            match keys.iter().find(|key| key.name.eq_ignore_ascii_case(&item.key)) {
                None => unknown.push(item),
                Some(key) => {
                    if !key.value_type.is_block() {
                        self.check_once(path, item, key.name.to_owned(), &mut given);
                    }
                    self.item(path, key, item, effective, &mut block);
                }
            }
        }
        self.refuse_unknown(path, &unknown);
        block
    }

    fn item(&mut self, parent: &str, key: &'static Key, item: &Item, effective: bool, block: &mut Block) {
        let path = &joined(parent, key.name);
        let setting = match key.value_type {
            Type::Block(keys) => self.blocks(path, item, |reader, block, body| {
                block.merge(reader.block(path, keys, body, effective && is_used(key)));
            }),
            Type::Named { known, others } => self.blocks(path, item, |reader, block, body| {
                block.merge(reader.named(path, known, others, body, effective && is_used(key)));
            }),
            Type::Map => self.map(path, item, effective && is_used(key)),
            Type::Any => None,
            Type::Text
            | Type::Bool
            | Type::Whole(..)
            | Type::Float
            | Type::Duration
            | Type::Size
            | Type::Address
            | Type::Texts => match key.value_type.scalar(&item.value) {
                Ok(scalar) => Some(Setting::Scalar(scalar)),
                Err(mismatch) => {
                    self.refuse_value(path, item, &mismatch);
                    return;
                }
            },
        };
        if !effective {
            return;
        }
        match key.support {
            Support::Used => {
                if let Some(setting) = setting {
                    block.set(key.name.to_owned(), setting);
                }
            }
            Support::Off(feature) if setting == Some(Setting::Scalar(Scalar::Bool(true))) => {
                self.not_built(path, item, feature);
            }
            Support::Off(feature) => {
                self.no_effect(path, item, &format!("{} not built, and off", feature.subject()));
            }
            Support::Without(feature) => self.no_effect(path, item, &feature.absence()),
            Support::NoEffect(why) => self.no_effect(path, item, why),
            Support::NotBuilt(feature) => self.not_built(path, item, feature),
            Support::AsBlock => {}
        }
    }

    /// Reads blocks with labels.
    fn named(
        &mut self,
        path: &str,
        known: &'static [Key],
        others: &'static [Key],
        body: &Body,
        effective: bool,
    ) -> Block {
        let mut block = Block::default();
        for item in body.items.iter().filter(|item| item.value.kind != Kind::Null) {
            let inner = &format!("{path} \"{}\"", item.key);
            let key = known.iter().find(|key| key.name == item.key);
            let keys = match key.map(|key| key.value_type) {
                Some(Type::Block(keys)) => keys,
                _ => others,
            };
            let is_known = key.is_some() || known.is_empty();
            let setting = self.blocks(inner, item, |reader, block, body| {
                block.merge(reader.block(inner, keys, body, effective && is_known));
            });
            match setting {
                Some(setting) if is_known => block.set(item.key.clone(), setting),
                // If a whole block is not built, its labels are not reported separately.
                Some(_) if effective => self.not_built(inner, item, keys::OTHER_PLUGINS),
                Some(_) | None => {}
            }
        }
        block
    }

    /// Reads a block, which in JSON may be a list of blocks. `None` if the value is something else.
    fn blocks(
        &mut self,
        path: &str,
        item: &Item,
        mut read: impl FnMut(&mut Self, &mut Block, &Body),
    ) -> Option<Setting> {
        let Some(bodies) = values::bodies(&item.value, self.syntax == Syntax::Json) else {
            self.refuse_value(path, item, &Mismatch::Expected("a block"));
            return None;
        };
        let mut block = Block::default();
        for body in bodies {
            read(self, &mut block, body);
        }
        Some(Setting::Block(block))
    }

    /// Reads a block of strings. Its keys are arbitrary, and so case-sensitive.
    fn map(&mut self, path: &str, item: &Item, effective: bool) -> Option<Setting> {
        let Some(bodies) = values::bodies(&item.value, self.syntax == Syntax::Json) else {
            self.refuse_value(path, item, &Mismatch::Expected("a block"));
            return None;
        };
        let mut map = BTreeMap::new();
        for body in bodies {
            let mut given = BTreeMap::new();
            for item in body.items.iter().filter(|item| item.value.kind != Kind::Null) {
                self.check_once(path, item, item.key.clone(), &mut given);
                let inner = &joined(path, &item.key);
                match values::text(&item.value) {
                    Some(text) => {
                        if effective && path == "client.options" {
                            self.option(inner, item);
                        }
                        map.insert(item.key.clone(), text);
                    }
                    None => self.refuse_value(inner, item, &Mismatch::Expected("a string")),
                }
            }
        }
        Some(Setting::Map(map))
    }

    fn option(&mut self, path: &str, item: &Item) {
        let key = item.key.as_str();
        if keys::OPTIONS_NOT_BUILT.contains(&key) {
            self.not_built(path, item, Feature::SomeSettings);
        } else if !keys::OPTIONS_USED.contains(&key) {
            self.no_effect(path, item, "the option is unknown");
        }
    }

    /// Refuses a key that occurs twice in the same body. Repeated blocks are merged instead.
    fn check_once(&mut self, path: &str, item: &Item, name: String, given: &mut BTreeMap<String, Position>) {
        if let Some(first) = given.get(&name) {
            let space = if path.is_empty() { "" } else { " " };
            let text = format!(
                "{path}{space}unexpected keys {name}: it is given twice in one block, first at {first}"
            );
            self.report.faults.push(Fault {
                file: self.file.to_owned(),
                at: Some(item.at),
                syntax: None,
                text,
            });
        } else {
            given.insert(name, item.at);
        }
    }

    fn refuse_unknown(&mut self, path: &str, unknown: &[&Item]) {
        let Some(first) = unknown.first() else { return };
        let mut names: Vec<&str> = unknown.iter().map(|item| item.key.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let space = if path.is_empty() { "" } else { " " };
        self.report.faults.push(Fault {
            file: self.file.to_owned(),
            at: Some(first.at),
            syntax: None,
            text: format!("{path}{space}unexpected keys {}", names.join(", ")),
        });
    }

    fn refuse_value(&mut self, path: &str, item: &Item, mismatch: &Mismatch) {
        let (syntax, text) = match mismatch {
            Mismatch::Expected(expected) => {
                let displayed = values::displayed(&item.value);
                (Some(self.syntax), format!("{path}: must be {expected}, not {displayed}"))
            }
            Mismatch::OutOfRange(first, last, number) => {
                (None, format!("{path}: must be from {first} to {last}, not {number}"))
            }
            Mismatch::Duration(text) => (
                None,
                format!(
                    "{path} can't parse time duration {text}: expected a number and a unit, as in \"30s\" or \"1h30m\""
                ),
            ),
        };
        self.report.faults.push(Fault { file: self.file.to_owned(), at: Some(item.value.at), syntax, text });
    }

    fn not_built(&mut self, path: &str, item: &Item, feature: Feature) {
        let finding = self.finding(path, item, feature.finding_of(path));
        self.report.not_built.push(finding);
    }

    fn no_effect(&mut self, path: &str, item: &Item, why: &str) {
        let finding = self.finding(path, item, format!("{path} has no effect: {why}"));
        self.report.no_effect.push(finding);
    }

    fn finding(&self, path: &str, item: &Item, text: String) -> Finding {
        Finding { file: self.file.to_owned(), at: item.at, key: path.to_owned(), text }
    }
}

fn is_used(key: &Key) -> bool {
    matches!(key.support, Support::Used)
}

fn joined(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}
