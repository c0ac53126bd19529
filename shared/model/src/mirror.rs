//! Traits and macros that convert between objects of the API and objects of the domain.
//!
//! [`mirror!`] implements both directions of the conversion from one list of members. The list names every member of both
//! structs, so that a member that is added to only one of them does not compile. [`Member`] converts the value of a
//! member, by the types on both sides. An absent value becomes the zero of the domain type (empty text, 0, false, an empty
//! list); only an `Option` distinguishes absent from zero. Defaults are filled in by `canonicalise`.

use std::collections::BTreeMap;

use api_types::Time;
use serde_json::Value;

use crate::invalid::{At, Invalid};
use crate::{AllocId, Index, Map, Nanos, Text, Timestamp};

/// A domain object that has a counterpart in the API.
pub(crate) trait Mirror: Sized {
    /// The type of the API.
    type Api;

    /// Converts an object of the API. The error contains the path of the first invalid value.
    fn from_api(api: Self::Api) -> Result<Self, Invalid>;

    /// Converts to the object of API responses. Text, numbers and booleans are always set; absent and empty values are
    /// `None`.
    fn to_api(&self) -> Self::Api;
}

/// The value of a member, which the object of the API has as an optional `A`.
///
/// A domain type may have several types in the API: times are numbers in one object and text in another.
pub(crate) trait Member<A>: Sized {
    /// Converts the value of the API.
    fn read(api: Option<A>) -> Result<Self, Invalid>;

    /// Converts to the value in API responses.
    fn write(&self) -> Option<A>;
}

/// Converts a member of an object that omits zeros (`docs/rules/http-api.md` §8.5).
pub(crate) fn write_unless_zero<A, M: Member<A> + Default + PartialEq>(member: &M) -> Option<A> {
    if *member == M::default() { None } else { member.write() }
}

/// Converts a member that is present even if it is empty.
pub(crate) fn write_always<A: Default, M: Member<A>>(member: &M) -> Option<A> {
    Some(member.write().unwrap_or_default())
}

/// Implements [`Mirror`] for a struct of the domain and one of `api_types`.
///
/// The keyword `omit_empty` at the beginning is for objects of the API that omit zeros. The first list contains the members
/// that have the same name on both sides. The other lists are optional:
/// - `renamed`: members that have a different name in the domain;
/// - `ignored`: members of the API that the domain does not have, each with the value that `to_api` writes;
/// - `always_present`: members that are present even if they are empty;
/// - `domain_only`: members of the domain that the API does not have.
macro_rules! mirror {
    (
        @write $write:expr, $ours:ident = $theirs:ident { $( $member:ident : $name:literal ),* $(,)? }
        $( renamed { $( $to:ident = $from:ident : $renamed:literal ),+ $(,)? } )?
        $( ignored { $( $ignored:ident = $written:expr ),+ $(,)? } )?
        $( always_present { $( $always_present:ident : $present:literal ),+ $(,)? } )?
        $( domain_only { $( $domain_only:ident ),+ $(,)? } )?
    ) => {
        impl $crate::mirror::Mirror for $ours {
            type Api = api_types::$theirs;

            fn from_api(api: Self::Api) -> Result<Self, $crate::invalid::Invalid> {
                use $crate::invalid::At as _;
                use $crate::mirror::Member;
                let api_types::$theirs {
                    $($member,)* $($($from,)+)? $($($ignored: _,)+)? $($($always_present,)+)?
                } = api;
                Ok(Self {
                    $( $member: Member::read($member).at($name)?, )*
                    $( $( $to: Member::read($from).at($renamed)?, )+ )?
                    $( $( $always_present: Member::read($always_present).at($present)?, )+ )?
                    $( $( $domain_only: Default::default(), )+ )?
                })
            }

            fn to_api(&self) -> Self::Api {
                api_types::$theirs {
                    $( $member: $write(&self.$member), )*
                    $( $( $from: $write(&self.$to), )+ )?
                    $( $( $ignored: $written, )+ )?
                    $( $( $always_present: $crate::mirror::write_always(&self.$always_present), )+ )?
                }
            }
        }
    };
    ( omit_empty $($rest:tt)+ ) => {
        $crate::mirror::mirror! { @write $crate::mirror::write_unless_zero, $($rest)+ }
    };
    ( $($rest:tt)+ ) => {
        $crate::mirror::mirror! { @write $crate::mirror::Member::write, $($rest)+ }
    };
}
pub(crate) use mirror;

/// Implements [`Member`] for types that are text in the API: string enumerations and ids. An empty text is `None` for an
/// `Option`, and an error otherwise.
macro_rules! text_members {
    ($($ours:ident),+ $(,)?) => { $(
        impl $crate::mirror::Member<String> for $ours {
            fn read(api: Option<String>) -> Result<Self, $crate::invalid::Invalid> {
                Ok(api.unwrap_or_default().parse()?)
            }

            fn write(&self) -> Option<String> {
                Some(self.to_string())
            }
        }

        impl $crate::mirror::Member<String> for Option<$ours> {
            fn read(api: Option<String>) -> Result<Self, $crate::invalid::Invalid> {
                match api {
                    Some(text) if !text.is_empty() => Ok(Some(text.parse()?)),
                    Some(_) | None => Ok(None),
                }
            }

            fn write(&self) -> Option<String> {
                Some(self.map_or_else(String::new, |value| value.to_string()))
            }
        }
    )+ };
}
pub(crate) use text_members;

/// Implements [`Mirror`] for types of the API that domain objects contain unchanged.
macro_rules! passthrough {
    ($($object:ty),+ $(,)?) => { $(
        impl $crate::mirror::Mirror for $object {
            type Api = Self;

            fn from_api(api: Self) -> Result<Self, $crate::invalid::Invalid> {
                Ok(api)
            }

            fn to_api(&self) -> Self {
                self.clone()
            }
        }
    )+ };
}
pub(crate) use passthrough;

/// Implements [`Member`] for optional objects that both sides box.
macro_rules! boxed_members {
    ($($object:ty),+ $(,)?) => { $(
        impl $crate::mirror::Member<Box<<$object as $crate::mirror::Mirror>::Api>> for Option<Box<$object>> {
            fn read(
                api: Option<Box<<$object as $crate::mirror::Mirror>::Api>>,
            ) -> Result<Self, $crate::invalid::Invalid> {
                api.map(|api| $crate::mirror::Mirror::from_api(*api).map(Box::new)).transpose()
            }

            fn write(&self) -> Option<Box<<$object as $crate::mirror::Mirror>::Api>> {
                self.as_ref().map(|object| Box::new($crate::mirror::Mirror::to_api(&**object)))
            }
        }
    )+ };
}
pub(crate) use boxed_members;

/// Implements serde's traits for objects that messages and rows contain in the form of the API. They were stored in that form
/// before the domain had types for them.
macro_rules! encoded_as_api {
    ($($object:ty),+ $(,)?) => { $(
        impl serde::Serialize for $object {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(&$crate::mirror::Mirror::to_api(self), serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $object {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let api = serde::Deserialize::deserialize(deserializer)?;
                <Self as $crate::mirror::Mirror>::from_api(api).map_err(serde::de::Error::custom)
            }
        }
    )+ };
}
pub(crate) use encoded_as_api;

/// Implements [`Member`] for types that equal or wrap the type of the API. Neither direction can fail.
macro_rules! plain_members {
    ($($ours:ty = $theirs:ty: $into:expr, $back:expr;)+) => { $(
        impl Member<$theirs> for $ours {
            fn read(api: Option<$theirs>) -> Result<Self, Invalid> {
                Ok(api.map($into).unwrap_or_default())
            }

            fn write(&self) -> Option<$theirs> {
                Some($back(self))
            }
        }
    )+ };
}

plain_members! {
    bool = bool: |value| value, |value: &bool| *value;
    i64 = i64: |value| value, |value: &i64| *value;
    u64 = u64: |value| value, |value: &u64| *value;
    f64 = f64: |value| value, |value: &f64| *value;
    Text = String: Text::from, |text: &Text| text.as_str().to_owned();
    Nanos = i64: Nanos, |duration: &Nanos| duration.0;
    Timestamp = i64: Timestamp, |time: &Timestamp| time.0;
    Index = u64: Index, |index: &Index| index.0;
}

impl Member<Time> for Timestamp {
    fn read(api: Option<Time>) -> Result<Self, Invalid> {
        Ok(api.into())
    }

    fn write(&self) -> Option<Time> {
        (*self).into()
    }
}

/// Implements [`Member`] for optional values, which distinguish absent from zero.
macro_rules! optional_members {
    ($($value:ty = $theirs:ty),+) => { $(
        impl Member<$theirs> for Option<$value> {
            fn read(api: Option<$theirs>) -> Result<Self, Invalid> {
                api.map(|value| Member::read(Some(value))).transpose()
            }

            fn write(&self) -> Option<$theirs> {
                self.as_ref().and_then(Member::write)
            }
        }
    )+ };
}

optional_members!(bool = bool, i64 = i64, u32 = i64, Nanos = i64);

/// Implements [`Member`] for integers that are narrower than those of the API.
macro_rules! narrow_members {
    ($($number:ty = $theirs:ty;)+) => { $(
        impl Member<$theirs> for $number {
            fn read(api: Option<$theirs>) -> Result<Self, Invalid> {
                let value = api.unwrap_or(0);
                value.try_into().map_err(|_| {
                    let problem = match (value > 0, <$number>::MIN == 0) {
                        (true, _) => "is too large",
                        (false, true) => "is negative",
                        (false, false) => "is too small",
                    };
                    Invalid::new(format!("{value} {problem}"))
                })
            }

            fn write(&self) -> Option<$theirs> {
                Some((*self).into())
            }
        }
    )+ };
}

narrow_members! {
    u16 = i64;
    u32 = i64;
    i32 = i64;
    u16 = u64;
    u32 = u64;
}

/// A required object. If it is absent, all its members are zero.
impl<M: Mirror + Default> Member<M::Api> for M {
    fn read(api: Option<M::Api>) -> Result<Self, Invalid> {
        api.map_or_else(|| Ok(M::default()), M::from_api)
    }

    fn write(&self) -> Option<M::Api> {
        Some(self.to_api())
    }
}

impl<M: Mirror> Member<M::Api> for Option<M> {
    fn read(api: Option<M::Api>) -> Result<Self, Invalid> {
        api.map(M::from_api).transpose()
    }

    fn write(&self) -> Option<M::Api> {
        self.as_ref().map(M::to_api)
    }
}

impl<M: Mirror> Member<Vec<M::Api>> for Vec<M> {
    fn read(api: Option<Vec<M::Api>>) -> Result<Self, Invalid> {
        read_list(api, M::from_api)
    }

    fn write(&self) -> Option<Vec<M::Api>> {
        write_list(self, M::to_api)
    }
}

/// Implements [`Member`] for lists of values.
macro_rules! lists {
    ($($item:ty = $theirs:ty),+ $(,)?) => { $(
        impl Member<Vec<$theirs>> for Vec<$item> {
            fn read(api: Option<Vec<$theirs>>) -> Result<Self, Invalid> {
                read_list(api, |item| Member::read(Some(item)))
            }

            fn write(&self) -> Option<Vec<$theirs>> {
                write_list(self, |item| item.write().unwrap_or_default())
            }
        }
    )+ };
}

lists!(Text = String, AllocId = String, u16 = u64, u32 = u64, Vec<u32> = Vec<u64>);

impl<M: Mirror> Member<BTreeMap<String, M::Api>> for BTreeMap<Text, M> {
    fn read(api: Option<BTreeMap<String, M::Api>>) -> Result<Self, Invalid> {
        read_map(api, M::from_api)
    }

    fn write(&self) -> Option<BTreeMap<String, M::Api>> {
        write_map(self, M::to_api)
    }
}

/// Implements [`Member`] for maps of values.
macro_rules! maps {
    ($map:ident: $($item:ty = $theirs:ty),+ $(,)?) => { $(
        impl Member<BTreeMap<String, $theirs>> for $map<Text, $item> {
            fn read(api: Option<BTreeMap<String, $theirs>>) -> Result<Self, Invalid> {
                read_map(api, |item| Member::read(Some(item)))
            }

            fn write(&self) -> Option<BTreeMap<String, $theirs>> {
                write_map(self, |item| item.write().unwrap_or_default())
            }
        }
    )+ };
}

maps!(BTreeMap: Text = String, bool = bool, u32 = i64, f64 = f64, Vec<Text> = Vec<String>);
maps!(Map: u32 = i64);

impl<M: Mirror> Member<BTreeMap<String, M::Api>> for Map<Text, M> {
    fn read(api: Option<BTreeMap<String, M::Api>>) -> Result<Self, Invalid> {
        read_map(api, M::from_api)
    }

    fn write(&self) -> Option<BTreeMap<String, M::Api>> {
        write_map(self, M::to_api)
    }
}

/// A free-form object, such as the configuration of a driver, is not converted.
impl Member<BTreeMap<String, Value>> for Map<String, Value> {
    fn read(api: Option<BTreeMap<String, Value>>) -> Result<Self, Invalid> {
        Ok(api.unwrap_or_default().into())
    }

    fn write(&self) -> Option<BTreeMap<String, Value>> {
        if self.is_empty() { None } else { Some(self.clone().into_iter().collect()) }
    }
}

fn read_list<T, A>(api: Option<Vec<A>>, read: impl Fn(A) -> Result<T, Invalid>) -> Result<Vec<T>, Invalid> {
    let items = api.unwrap_or_default().into_iter().enumerate();
    items.map(|(position, item)| read(item).at_item(position)).collect()
}

fn write_list<T, A>(items: &[T], write: impl Fn(&T) -> A) -> Option<Vec<A>> {
    if items.is_empty() { None } else { Some(items.iter().map(write).collect()) }
}

fn read_map<T, A, M: FromIterator<(Text, T)>>(
    api: Option<BTreeMap<String, A>>,
    read: impl Fn(A) -> Result<T, Invalid>,
) -> Result<M, Invalid> {
    let read = |(key, item): (String, A)| {
        let item = read(item).at_item(&key)?;
        Ok((Text::from(key), item))
    };
    api.unwrap_or_default().into_iter().map(read).collect()
}

fn write_map<'a, T: 'a, A>(
    items: impl IntoIterator<Item = (&'a Text, &'a T)>,
    write: impl Fn(&T) -> A,
) -> Option<BTreeMap<String, A>> {
    let written: BTreeMap<_, _> =
        items.into_iter().map(|(key, item)| (key.to_string(), write(item))).collect();
    (!written.is_empty()).then_some(written)
}
