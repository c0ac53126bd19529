//! The settings in a block of a configuration file, by key, and how they are extracted.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::values::Scalar;

/// Key of the blocks that configure plugins.
const PLUGIN: &str = "plugin";

/// The settings in a block, by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Block(BTreeMap<String, Setting>);

/// The value of a key in a block.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Setting {
    Scalar(Scalar),
    Block(Block),
    Map(BTreeMap<String, String>),
}

impl Block {
    /// Adds the settings of a later file. A boolean that is on stays on, except in the configuration of plugins, which the
    /// reference does not look into.
    pub(super) fn add_file(&mut self, later: Self) {
        for (key, setting) in later.0 {
            match (self.0.get_mut(&key), setting) {
                (Some(Setting::Block(block)), Setting::Block(later)) if key != PLUGIN => {
                    block.add_file(later)
                }
                (Some(Setting::Scalar(Scalar::Bool(true))), Setting::Scalar(Scalar::Bool(_))) => {}
                (_, setting) => self.set(key, setting),
            }
        }
    }

    /// Adds the settings of another block. Where both contain a key, the value of `later` applies.
    pub(super) fn merge(&mut self, later: Self) {
        for (key, setting) in later.0 {
            self.set(key, setting);
        }
    }

    /// Adds a setting. Blocks and maps are merged; any other setting replaces the earlier one.
    pub(super) fn set(&mut self, key: String, setting: Setting) {
        match (self.0.get_mut(&key), setting) {
            (Some(Setting::Block(block)), Setting::Block(later)) => block.merge(later),
            (Some(Setting::Map(map)), Setting::Map(later)) => map.extend(later),
            (_, setting) => {
                self.0.insert(key, setting);
            }
        }
    }

    fn scalar(&self, key: &str) -> Option<&Scalar> {
        match self.0.get(key)? {
            Setting::Scalar(scalar) => Some(scalar),
            Setting::Block(_) | Setting::Map(_) => None,
        }
    }

    /// The block with that key, which may be empty; `None` if there is none.
    pub(super) fn given(&self, key: &str) -> Option<&Self> {
        match self.0.get(key)? {
            Setting::Block(block) => Some(block),
            Setting::Scalar(_) | Setting::Map(_) => None,
        }
    }

    /// The block with that key; an empty one if there is none.
    pub(super) fn block(&self, key: &str) -> &Self {
        static EMPTY: Block = Block(BTreeMap::new());
        self.given(key).unwrap_or(&EMPTY)
    }

    /// The blocks in the block with that key, by their labels.
    pub(super) fn labelled(&self, key: &str) -> impl Iterator<Item = (&String, &Self)> {
        self.block(key).0.iter().filter_map(|(label, setting)| match setting {
            Setting::Block(block) => Some((label, block)),
            Setting::Scalar(_) | Setting::Map(_) => None,
        })
    }

    pub(super) fn map(&self, key: &str) -> BTreeMap<String, String> {
        match self.0.get(key) {
            Some(Setting::Map(map)) => map.clone(),
            Some(Setting::Scalar(_) | Setting::Block(_)) | None => BTreeMap::new(),
        }
    }

    pub(super) fn get<T: FromScalar>(&self, key: &str) -> Option<T> {
        T::from_scalar(self.scalar(key)?)
    }
}

/// A type that can be extracted from a scalar. `None` if the scalar is of another type, which the
/// type of the key excludes.
pub(super) trait FromScalar: Sized {
    fn from_scalar(scalar: &Scalar) -> Option<Self>;
}

macro_rules! from_scalar {
    ($($type:ty, $pattern:pat => $value:expr;)*) => {$(
        impl FromScalar for $type {
            fn from_scalar(scalar: &Scalar) -> Option<Self> {
                if let $pattern = scalar { $value } else { None }
            }
        }
    )*};
}

from_scalar! {
    String, Scalar::Text(text) => Some(text.clone());
    bool, Scalar::Bool(value) => Some(*value);
    i64, Scalar::Whole(number) => Some(*number);
    u32, Scalar::Whole(number) => (*number).try_into().ok();
    u16, Scalar::Whole(number) => (*number).try_into().ok();
    f64, Scalar::Float(number) => Some(*number);
    IpAddr, Scalar::Address(address) => Some(*address);
    Vec<String>, Scalar::Texts(texts) => Some(texts.clone());
}
