//! Comparing two versions of a block by its shape.

use std::collections::{BTreeMap, BTreeSet};

use api_types::{DiffType, FieldDiff, ObjectDiff};
use serde_json::Value;

use super::shapes::{Block, Field, Shape};
use super::{list, sort};

/// Two versions of a block; null is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
}

impl<'a> Sides<'a> {
    pub(super) fn new(old: &'a Value, new: &'a Value) -> Self {
        Self { old, new }
    }

    fn member(self, name: &str) -> Self {
        Self { old: &self.old[name], new: &self.new[name] }
    }

    /// A text of the newer version, or else of the older one.
    pub(super) fn text(self, name: &str) -> String {
        self.new[name].as_str().or(self.old[name].as_str()).unwrap_or_default().to_owned()
    }

    /// Whether the two differ in any way.
    pub(super) fn compared(self) -> DiffType {
        if self.old == self.new { DiffType::None } else { DiffType::Edited }
    }

    /// What is there on one side only is new or gone; else it is as `both` says.
    pub(super) fn present(self, both: DiffType) -> DiffType {
        match (self.old.is_null(), self.new.is_null()) {
            (true, false) => DiffType::Added,
            (false, true) => DiffType::Deleted,
            (true, true) => DiffType::None,
            (false, false) => both,
        }
    }
}

/// What differs of a job, a group or a task itself: only what changed.
pub(super) fn changes(shape: &Shape, sides: Sides<'_>) -> (Vec<FieldDiff>, Vec<ObjectDiff>) {
    let mut fields = fields(shape, sides);
    fields.retain(|field| field.r#type != DiffType::None);
    let mut objects = objects(shape, sides);
    sort(&mut fields, &mut objects);
    (fields, objects)
}

/// What differs of a nested block, with what stays the same around it; `None` if nothing does.
fn object(name: &str, shape: &Shape, sides: Sides<'_>) -> Option<ObjectDiff> {
    let mut fields = fields(shape, sides);
    let mut objects = objects(shape, sides);
    let has = |wanted: DiffType| fields.iter().any(|field| field.r#type == wanted);
    let of_fields = match (has(DiffType::Edited), has(DiffType::Added), has(DiffType::Deleted)) {
        (true, _, _) | (false, true, true) => DiffType::Edited,
        (false, true, false) => DiffType::Added,
        (false, false, true) => DiffType::Deleted,
        (false, false, false) => DiffType::None,
    };
    let both = if objects.is_empty() { of_fields } else { DiffType::Edited };
    if of_fields == DiffType::None && objects.is_empty() {
        return None;
    }
    sort(&mut fields, &mut objects);
    Some(ObjectDiff {
        r#type: sides.present(both),
        name: name.to_owned(),
        fields: list(fields),
        objects: list(objects),
    })
}

fn field(name: &str, old: String, new: String) -> FieldDiff {
    let r#type = match (old.is_empty(), new.is_empty()) {
        _ if old == new => DiffType::None,
        (true, _) => DiffType::Added,
        (_, true) => DiffType::Deleted,
        (false, false) => DiffType::Edited,
    };
    FieldDiff { r#type, name: name.to_owned(), old, new, annotations: None }
}

fn fields(shape: &Shape, sides: Sides<'_>) -> Vec<FieldDiff> {
    let mut found = Vec::new();
    for known in shape.fields {
        let one = |name: &str, zero: &str| {
            let of = |side: &Value| match (side.is_null(), &side[name]) {
                (true, _) => String::new(),
                (false, Value::Null) => zero.to_owned(),
                (false, value) => plain(value),
            };
            field(name, of(sides.old), of(sides.new))
        };
        match known {
            Field::Text(name) => found.push(one(name, "")),
            Field::Number(name) => found.push(one(name, "0")),
            Field::Flag(name) => found.push(one(name, "false")),
            Field::OrNil(name) => found.push(one(name, "nil")),
            Field::Maybe(name) => {
                let maybe = one(name, "");
                found.extend((!maybe.old.is_empty() || !maybe.new.is_empty()).then_some(maybe));
            }
            Field::Joined(name) => {
                let joined = |side: &Value| words(&side[*name]).join(",");
                let joined = field(name, joined(sides.old), joined(sides.new));
                found.extend((joined.r#type != DiffType::None).then_some(joined));
            }
            Field::Map(name) => found.extend(
                entries(sides.member(name)).map(|(key, old, new)| field(&format!("{name}[{key}]"), old, new)),
            ),
        }
    }
    found
}

fn objects(shape: &Shape, sides: Sides<'_>) -> Vec<ObjectDiff> {
    let mut found = Vec::new();
    for block in shape.blocks {
        match block {
            Block::One(name, member, shape) => found.extend(object(name, shape, sides.member(member))),
            Block::Free(name, member) => found.extend(free(name, sides.member(member))),
            Block::Words(name, member) => found.extend(word_set(name, sides.member(member))),
            Block::Set(name, member, shape) => {
                let [old, new] = [sides.old, sides.new].map(|side| items(&side[*member]));
                let gone = old.iter().filter(|item| !new.contains(item));
                let come = new.iter().filter(|item| !old.contains(item));
                found.extend(gone.filter_map(|item| object(name, shape, Sides::new(item, &Value::Null))));
                found.extend(come.filter_map(|item| object(name, shape, Sides::new(&Value::Null, item))));
            }
            Block::Named(name, member, key, shape) => {
                let by_key = |side: &Value| -> BTreeMap<String, Value> {
                    let items = items(&side[*member]).into_iter();
                    items.map(|item| (plain(&item[*key]), item)).collect()
                };
                let (old, new) = (by_key(sides.old), by_key(sides.new));
                let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
                for key in keys {
                    let [old, new] = [&old, &new].map(|side| side.get(key).unwrap_or(&Value::Null));
                    found.extend(object(name, shape, Sides::new(old, new)));
                }
            }
        }
    }
    found
}

/// A block of free form: every value in it is a field.
fn free(name: &str, sides: Sides<'_>) -> Option<ObjectDiff> {
    let mut fields: Vec<FieldDiff> = entries(sides).map(|(key, old, new)| field(&key, old, new)).collect();
    if fields.iter().all(|field| field.r#type == DiffType::None) {
        return None;
    }
    sort(&mut fields, &mut []);
    let has_any = |side: &Value| !flat(side).is_empty();
    let r#type = match (has_any(sides.old), has_any(sides.new)) {
        (false, _) => DiffType::Added,
        (_, false) => DiffType::Deleted,
        (true, true) => DiffType::Edited,
    };
    Some(ObjectDiff { r#type, name: name.to_owned(), fields: list(fields), objects: None })
}

/// A set of texts, each a field with the name of the set.
fn word_set(name: &str, sides: Sides<'_>) -> Option<ObjectDiff> {
    let [old, new] = [sides.old, sides.new].map(|side| words(side).into_iter().collect::<BTreeSet<_>>());
    let gone = old.difference(&new).map(|word| field(name, word.clone(), String::new()));
    let come = new.difference(&old).map(|word| field(name, String::new(), word.clone()));
    let mut fields: Vec<FieldDiff> = gone.chain(come).collect();
    sort(&mut fields, &mut []);
    let has = |wanted: DiffType| fields.iter().any(|field| field.r#type == wanted);
    let r#type = match (has(DiffType::Added), has(DiffType::Deleted)) {
        (false, false) => return None,
        (true, true) => DiffType::Edited,
        (true, false) => DiffType::Added,
        (false, true) => DiffType::Deleted,
    };
    Some(ObjectDiff { r#type, name: name.to_owned(), fields: list(fields), objects: None })
}

/// The values of two free forms, by their places.
fn entries(sides: Sides<'_>) -> impl Iterator<Item = (String, String, String)> {
    let (old, new) = (flat(sides.old), flat(sides.new));
    let keys: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
    keys.into_iter().map(move |key| {
        let [old, new] = [&old, &new].map(|side| side.get(&key).cloned().unwrap_or_default());
        (key, old, new)
    })
}

/// The values of a free form by their places: `a`, `a[0]`, `a[b]`.
fn flat(value: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    if let Value::Object(members) = value {
        members.iter().for_each(|(name, value)| flatten(name, value, &mut found));
    }
    found
}

fn flatten(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| flatten(&format!("{path}[{name}]"), value, found));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(place, value)| flatten(&format!("{path}[{place}]"), value, found));
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            found.insert(path.to_owned(), plain(value));
        }
    }
}

/// The blocks of a list, or of a map, whose keys they know themselves.
fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::Object(members) => members.values().cloned().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(plain).collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
