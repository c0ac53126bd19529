//! Functions of Sprig, which consul-template offers under names that begin with `sprig_`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gotmpl::Value;
use sha2::{Digest as _, Sha256};

use super::Named;
use super::encoding::{decoded, hex};
use super::lists::{ITEMS_MAX, check_repeated};
use super::numbers::calculated;
use super::texts::{changed, indented, replaced, titled};
use crate::arguments::{Arguments, text, whole};
use crate::value::{list, map, string, strings};

/// The functions of this module.
pub(super) const FUNCTIONS: &[Named] = &[
    ("sprig_add", |_, arguments| calculated(arguments, |a, b| a.checked_add(b), |a, b| a + b)),
    ("sprig_append", |_, arguments| {
        arguments.count(2, 2)?;
        Ok(list(arguments.list(0)?.into_iter().chain([arguments.value(1).clone()])))
    }),
    ("sprig_b64dec", |_, arguments| decoded(arguments, |text| BASE64_STANDARD.decode(text))),
    ("sprig_b64enc", |_, arguments| changed(arguments, |text| BASE64_STANDARD.encode(text))),
    ("sprig_coalesce", |_, arguments| {
        Ok(arguments.0.iter().find(|value| value.is_truthy()).cloned().unwrap_or(Value::Nil))
    }),
    ("sprig_contains", |_, arguments| compared(arguments, |part, text| text.contains(part))),
    ("sprig_default", |_, arguments| {
        arguments.count(1, 2)?;
        let given = arguments.value(1);
        Ok(if given.is_truthy() { given.clone() } else { arguments.value(0).clone() })
    }),
    ("sprig_dict", |_, arguments| dict(arguments)),
    ("sprig_div", |_, arguments| calculated(arguments, |a, b| a.checked_div(b), |a, b| a / b)),
    ("sprig_empty", |_, arguments| {
        arguments.count(1, 1)?;
        Ok(Value::Bool(!arguments.value(0).is_truthy()))
    }),
    ("sprig_fail", |_, arguments| Err(arguments.text(0)?)),
    ("sprig_first", |_, arguments| {
        arguments.count(1, 1)?;
        Ok(arguments.list(0)?.first().cloned().unwrap_or(Value::Nil))
    }),
    ("sprig_get", |_, arguments| {
        arguments.count(2, 2)?;
        Ok(arguments.value(0).field(&arguments.text(1)?).cloned().unwrap_or_else(|| string("")))
    }),
    ("sprig_has", |_, arguments| {
        arguments.count(2, 2)?;
        Ok(Value::Bool(arguments.list(1)?.contains(arguments.value(0))))
    }),
    ("sprig_hasKey", |_, arguments| {
        arguments.count(2, 2)?;
        Ok(Value::Bool(arguments.value(0).field(&arguments.text(1)?).is_some()))
    }),
    ("sprig_hasPrefix", |_, arguments| compared(arguments, |part, text| text.starts_with(part))),
    ("sprig_hasSuffix", |_, arguments| compared(arguments, |part, text| text.ends_with(part))),
    ("sprig_indent", |_, arguments| {
        arguments.count(2, 2)?;
        indented(arguments).map(string)
    }),
    ("sprig_int", |_, arguments| {
        arguments.count(1, 1)?;
        Ok(Value::Int(whole(arguments.value(0)).unwrap_or(0)))
    }),
    ("sprig_join", |_, arguments| {
        arguments.count(2, 2)?;
        let (separator, items) = (arguments.text(0)?, arguments.texts(1)?);
        check_repeated(separator.len(), items.len())?;
        Ok(string(items.join(&separator)))
    }),
    ("sprig_keys", |_, arguments| {
        arguments.count(1, 1)?;
        match arguments.value(0) {
            Value::Map(members) => Ok(strings(members.keys())),
            Value::Nil
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::List(_)
            | Value::Function(_) => Err("argument 1 must be a map".to_owned()),
        }
    }),
    ("sprig_last", |_, arguments| {
        arguments.count(1, 1)?;
        Ok(arguments.list(0)?.last().cloned().unwrap_or(Value::Nil))
    }),
    ("sprig_list", |_, arguments| Ok(list(arguments.0.iter().cloned()))),
    ("sprig_lower", |_, arguments| changed(arguments, |text| text.to_lowercase())),
    ("sprig_max", |_, arguments| calculated(arguments, |a, b| Some(a.max(b)), |a, b| a.max(b))),
    ("sprig_min", |_, arguments| calculated(arguments, |a, b| Some(a.min(b)), |a, b| a.min(b))),
    ("sprig_mod", |_, arguments| calculated(arguments, |a, b| a.checked_rem(b), |a, b| a % b)),
    ("sprig_mul", |_, arguments| calculated(arguments, |a, b| a.checked_mul(b), |a, b| a * b)),
    ("sprig_nindent", |_, arguments| {
        arguments.count(2, 2)?;
        Ok(string(format!("\n{}", indented(arguments)?)))
    }),
    ("sprig_quote", |_, arguments| quoted(arguments, |text| format!("{text:?}"))),
    ("sprig_repeat", |_, arguments| {
        arguments.count(2, 2)?;
        let (count, text) = (arguments.length(0, ITEMS_MAX)?, arguments.text(1)?);
        check_repeated(text.len(), count)?;
        Ok(string(text.repeat(count)))
    }),
    ("sprig_replace", |_, arguments| {
        arguments.count(3, 3)?;
        replaced(&arguments.text(0)?, &arguments.text(1)?, &arguments.text(2)?)
    }),
    ("sprig_rest", |_, arguments| {
        arguments.count(1, 1)?;
        Ok(list(arguments.list(0)?.into_iter().skip(1)))
    }),
    ("sprig_sha256sum", |_, arguments| changed(arguments, |text| hex(&Sha256::digest(text)))),
    ("sprig_sortAlpha", |_, arguments| {
        arguments.count(1, 1)?;
        let mut texts = arguments.texts(0)?;
        texts.sort();
        Ok(strings(texts))
    }),
    ("sprig_squote", |_, arguments| quoted(arguments, |text| format!("'{text}'"))),
    ("sprig_sub", |_, arguments| calculated(arguments, |a, b| a.checked_sub(b), |a, b| a - b)),
    ("sprig_ternary", |_, arguments| {
        arguments.count(3, 3)?;
        Ok(arguments.value(if arguments.value(2).is_truthy() { 0 } else { 1 }).clone())
    }),
    ("sprig_title", |_, arguments| changed(arguments, titled)),
    ("sprig_toString", |_, arguments| changed(arguments, str::to_owned)),
    ("sprig_trim", |_, arguments| changed(arguments, |text| text.trim().to_owned())),
    ("sprig_trunc", |_, arguments| truncated(arguments)),
    ("sprig_uniq", |_, arguments| unique(arguments)),
    ("sprig_upper", |_, arguments| changed(arguments, |text| text.to_uppercase())),
    ("sprig_values", |_, arguments| {
        arguments.count(1, 1)?;
        match arguments.value(0) {
            Value::Map(members) => Ok(list(members.values().cloned())),
            Value::Nil
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::List(_)
            | Value::Function(_) => Err("argument 1 must be a map".to_owned()),
        }
    }),
];

/// Compares a part, which comes first, with a text.
fn compared(arguments: Arguments<'_>, compare: fn(&str, &str) -> bool) -> Result<Value, String> {
    arguments.count(2, 2)?;
    Ok(Value::Bool(compare(&arguments.text(0)?, &arguments.text(1)?)))
}

/// A map of keys and values in turn. A last key without a value has the empty text.
fn dict(arguments: Arguments<'_>) -> Result<Value, String> {
    let pairs = arguments.0.chunks(2).map(|pair| {
        let key = pair.first().and_then(text).ok_or_else(|| "keys must be texts".to_owned())?;
        Ok((key, pair.get(1).cloned().unwrap_or_else(|| string(""))))
    });
    Ok(map(pairs.collect::<Result<Vec<_>, String>>()?))
}

/// All arguments in quotes, with blanks between them.
fn quoted(arguments: Arguments<'_>, quote: fn(&str) -> String) -> Result<Value, String> {
    let texts = (0..arguments.0.len()).map(|position| arguments.text(position).map(|text| quote(&text)));
    Ok(string(texts.collect::<Result<Vec<_>, String>>()?.join(" ")))
}

/// The first characters of a text, or the last ones if the number is negative.
fn truncated(arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(2, 2)?;
    let (count, text) = (arguments.whole(0)?, arguments.text(1)?);
    let kept = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let length = text.chars().count();
    let skipped = if count < 0 { length.saturating_sub(kept) } else { 0 };
    Ok(string(text.chars().skip(skipped).take(kept).collect::<String>()))
}

/// A list without the repetitions of texts and other scalars.
fn unique(arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(1, 1)?;
    let mut seen = std::collections::BTreeSet::new();
    let items = arguments.list(0)?;
    let items =
        items.into_iter().filter(|item| text(item).is_none_or(|text| seen.insert((item.type_name(), text))));
    Ok(list(items))
}
