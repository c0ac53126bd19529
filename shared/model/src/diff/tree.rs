//! Comparison of two versions of a block by its shape.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use api_types::{DiffType, FieldDiff, ObjectDiff};
use serde_json::Value;

use super::pairs::to_text;
use super::shapes::{Block, Field, Shape};
use super::{non_empty, pairs, sort};

/// Maximum total length of the paths of the values in a block without a fixed shape, in bytes. Each path repeats the keys that
/// lead to its value, so all paths together can be far longer than the block.
const PATHS_BYTES_MAX: usize = 16 << 20;

/// Two versions of a block. Null means that the block is absent.
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
        let member = |side: &'a Value| name.split('/').fold(side, |value, name| &value[name]);
        Self { old: member(self.old), new: member(self.new) }
    }

    /// A text of the new version, or of the old one if the new one has none.
    pub(super) fn text(self, name: &str) -> String {
        self.new[name].as_str().or(self.old[name].as_str()).unwrap_or_default().to_owned()
    }

    /// `None` if both versions are equal, otherwise `Edited`.
    pub(super) fn none_or_edited(self) -> DiffType {
        if self.old == self.new { DiffType::None } else { DiffType::Edited }
    }

    /// `Added` or `Deleted` if only one version has the block; `both` if both have it.
    pub(super) fn diff_type(self, both: DiffType) -> DiffType {
        match (self.old.is_null(), self.new.is_null()) {
            (true, false) => DiffType::Added,
            (false, true) => DiffType::Deleted,
            (true, true) => DiffType::None,
            (false, false) => both,
        }
    }
}

/// The changed fields and blocks of a job, a group or a task.
pub(super) fn changes(shape: &Shape, sides: Sides<'_>) -> (Vec<FieldDiff>, Vec<ObjectDiff>) {
    let mut fields = fields(shape, sides);
    fields.retain(|field| field.r#type != DiffType::None);
    sort(&mut fields);
    let mut objects = objects(shape, sides);
    objects.retain(|object| object.r#type != DiffType::None);
    (fields, objects)
}

/// The diff of a nested block, which also contains unchanged fields. `None` if nothing changed.
fn compare_block(name: &str, shape: &Shape, sides: Sides<'_>) -> Option<ObjectDiff> {
    let mut fields = fields(shape, sides);
    let objects = objects(shape, sides);
    let has = |wanted: DiffType| fields.iter().any(|field| field.r#type == wanted);
    let fields_type = match (has(DiffType::Edited), has(DiffType::Added), has(DiffType::Deleted)) {
        (true, _, _) | (false, true, true) => DiffType::Edited,
        (false, true, false) => DiffType::Added,
        (false, false, true) => DiffType::Deleted,
        (false, false, false) => DiffType::None,
    };
    let has_changed_object = objects.iter().any(|object| object.r#type != DiffType::None);
    let both = if has_changed_object { DiffType::Edited } else { fields_type };
    if fields_type == DiffType::None && !has_changed_object {
        return None;
    }
    sort(&mut fields);
    Some(ObjectDiff {
        r#type: sides.diff_type(both),
        name: name.to_owned(),
        fields: non_empty(fields),
        objects: non_empty(objects),
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
    let mut diffs = Vec::new();
    for known in shape.fields {
        let scalar = |name: &str, zero: &str| {
            let value = |side: &Value| match (side.is_null(), &side[name]) {
                (true, _) => String::new(),
                (false, Value::Null) => zero.to_owned(),
                (false, value) => to_text(value),
            };
            field(name, value(sides.old), value(sides.new))
        };
        match known {
            Field::Text(name) => diffs.push(scalar(name, "")),
            Field::Number(name) => diffs.push(scalar(name, "0")),
            Field::Flag(name) => diffs.push(scalar(name, "false")),
            Field::OrNil(name) => diffs.push(scalar(name, "nil")),
            Field::Optional(name) => {
                let optional = scalar(name, "");
                diffs.extend((!optional.old.is_empty() || !optional.new.is_empty()).then_some(optional));
            }
            Field::Joined(name) => {
                let joined = |side: &Value| texts(&side[*name]).join(",");
                let joined = field(name, joined(sides.old), joined(sides.new));
                diffs.extend((joined.r#type != DiffType::None).then_some(joined));
            }
            Field::Map(name) => diffs.extend(
                entries(sides.member(name)).map(|(key, old, new)| field(&format!("{name}[{key}]"), old, new)),
            ),
        }
    }
    diffs
}

fn objects(shape: &Shape, sides: Sides<'_>) -> Vec<ObjectDiff> {
    let mut diffs = Vec::new();
    for block in shape.blocks {
        let first = diffs.len();
        match block {
            Block::One(name, member, shape) => diffs.extend(compare_block(name, shape, sides.member(member))),
            Block::Changes(name, member, shape) => {
                diffs.extend(compare_block(name, shape, sides.member(member)).map(only_changes));
            }
            Block::Paired(name, member, key, shape) => {
                let [old, new] = [sides.old, sides.new].map(|side| items(&side[*member]));
                let pairs = pairs::by_member(&old, &new, key);
                diffs.extend(
                    pairs
                        .into_iter()
                        .filter_map(|(old, new)| compare_block(name, shape, Sides::new(old, new))),
                );
            }
            Block::Services(name, member, shape) => {
                let [old, new] = [sides.old, sides.new].map(|side| items(&side[*member]));
                let pairs = pairs::services(&old, &new);
                diffs.extend(
                    pairs
                        .into_iter()
                        .filter_map(|(old, new)| compare_block(name, shape, Sides::new(old, new))),
                );
            }
            Block::FreeForm(name, member) => diffs.extend(compare_free_form(name, sides.member(member))),
            Block::Texts(name, member) => diffs.extend(compare_text_sets(name, sides.member(member))),
            Block::Set(name, member, shape) => {
                let [old, new] = [sides.old, sides.new].map(|side| items(&side[*member]));
                let [old_set, new_set] = [&old, &new].map(|items| items.iter().collect::<HashSet<_>>());
                let deleted = old.iter().filter(|item| !new_set.contains(item));
                let added = new.iter().filter(|item| !old_set.contains(item));
                let compare = |old, new| compare_block(name, shape, Sides::new(old, new));
                diffs.extend(deleted.filter_map(|item| compare(item, &Value::Null)));
                diffs.extend(added.filter_map(|item| compare(&Value::Null, item)));
            }
            Block::Named(name, member, key, shape) => {
                let by_key = |side: &Value| -> BTreeMap<String, Value> {
                    let items = items(&side[*member]).into_iter();
                    items.map(|item| (to_text(&item[*key]), item)).collect()
                };
                let (old, new) = (by_key(sides.old), by_key(sides.new));
                let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
                for key in keys {
                    let [old, new] = [&old, &new].map(|side| side.get(key).unwrap_or(&Value::Null));
                    diffs.extend(compare_block(name, shape, Sides::new(old, new)));
                }
            }
        }
        // Blocks of different names keep their order.
        diffs[first..].sort_by_key(|object| object.r#type);
    }
    diffs
}

/// Leaves out what did not change, also in nested blocks.
fn only_changes(object: ObjectDiff) -> ObjectDiff {
    let mut fields = object.fields.unwrap_or_default();
    fields.retain(|field| field.r#type != DiffType::None);
    let nested = object.objects.into_iter().flatten().map(only_changes);
    let objects = nested.filter(|object| object.r#type != DiffType::None).collect();
    ObjectDiff { fields: non_empty(fields), objects: non_empty(objects), ..object }
}

/// Compares blocks without a fixed shape. Every value in them is a field.
fn compare_free_form(name: &str, sides: Sides<'_>) -> Option<ObjectDiff> {
    let mut fields: Vec<FieldDiff> = entries(sides).map(|(key, old, new)| field(&key, old, new)).collect();
    if fields.iter().all(|field| field.r#type == DiffType::None) {
        return None;
    }
    sort(&mut fields);
    let has_any = |side: &Value| side.is_object() && has_scalar(side);
    let r#type = match (has_any(sides.old), has_any(sides.new)) {
        (false, _) => DiffType::Added,
        (_, false) => DiffType::Deleted,
        (true, true) => DiffType::Edited,
    };
    Some(ObjectDiff { r#type, name: name.to_owned(), fields: non_empty(fields), objects: None })
}

/// Compares sets of texts. Each text is a field with the name of the set, also one that is in both. `None` if both are empty.
fn compare_text_sets(name: &str, sides: Sides<'_>) -> Option<ObjectDiff> {
    let [old, new] = [sides.old, sides.new].map(|side| texts(side).into_iter().collect::<BTreeSet<_>>());
    let deleted = old.difference(&new).map(|text| field(name, text.clone(), String::new()));
    let added = new.difference(&old).map(|text| field(name, String::new(), text.clone()));
    let kept = old.intersection(&new).map(|text| field(name, text.clone(), text.clone()));
    let mut fields: Vec<FieldDiff> = deleted.chain(added).chain(kept).collect();
    if fields.is_empty() {
        return None;
    }
    sort(&mut fields);
    let has = |wanted: DiffType| fields.iter().any(|field| field.r#type == wanted);
    let r#type = match (has(DiffType::Added), has(DiffType::Deleted)) {
        (false, false) => DiffType::None,
        (true, true) => DiffType::Edited,
        (true, false) => DiffType::Added,
        (false, true) => DiffType::Deleted,
    };
    Some(ObjectDiff { r#type, name: name.to_owned(), fields: non_empty(fields), objects: None })
}

/// The values of two blocks without a fixed shape: path, old value and new value.
fn entries(sides: Sides<'_>) -> impl Iterator<Item = (String, String, String)> {
    let both = [sides.old, sides.new];
    let [old, new] = match both.map(Paths::of) {
        [Some(old), Some(new)] => [old, new],
        [_, _] => both.map(by_member),
    };
    let keys: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
    keys.into_iter().map(move |key| {
        let [old, new] = [&old, &new].map(|side| side.get(&key).cloned().unwrap_or_default());
        (key, old, new)
    })
}

/// The members of `value`, each as one JSON text.
fn by_member(value: &Value) -> BTreeMap<String, String> {
    let members = value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    members.map(|(name, value)| (name.clone(), to_text(value))).collect()
}

/// Whether a value is or contains a scalar.
fn has_scalar(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(members) => members.values().any(has_scalar),
        Value::Array(items) => items.iter().any(has_scalar),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Scalar values by path: `a`, `a[0]`, `a[b]`.
struct Paths {
    values: BTreeMap<String, String>,
    bytes_left: usize,
}

impl Paths {
    /// All scalar values in `value`. `None` if their paths are longer than [`PATHS_BYTES_MAX`].
    fn of(value: &Value) -> Option<BTreeMap<String, String>> {
        let mut paths = Self { values: BTreeMap::new(), bytes_left: PATHS_BYTES_MAX };
        for (name, value) in value.as_object().into_iter().flatten() {
            paths.add(name, value)?;
        }
        Some(paths.values)
    }

    fn add(&mut self, path: &str, value: &Value) -> Option<()> {
        self.bytes_left = self.bytes_left.checked_sub(path.len())?;
        match value {
            Value::Null => {}
            Value::Object(members) => {
                for (name, value) in members {
                    self.add(&format!("{path}[{name}]"), value)?;
                }
            }
            Value::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    self.add(&format!("{path}[{index}]"), value)?;
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.values.insert(path.to_owned(), to_text(value));
            }
        }
        Some(())
    }
}

/// The items of a list, or the values of a map. The values of a map contain their keys.
fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::Object(members) => members.values().cloned().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(to_text).collect()
}
