//! Query parameters (http-api §3): what a URL may say beside its path, and how it is read.

use std::time::Duration;

use api_types::duration;
use model::Index;
use model::text::quoted;
use serde::de::DeserializeOwned;

use super::Error;
use crate::admission::DEFAULT_NAMESPACE;
use crate::filter::{self, Filter};

/// The namespace that stands for all of them.
const ANY_NAMESPACE: &str = "*";

/// Parameters that say how and when to answer, but not what.
const NON_KEY_PARAMS: [&str; 5] = ["index", "wait", "stale", "consistent", "pretty"];

/// The parameters of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    path: String,
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads the query string of a path. Pairs that are not properly escaped are left out.
    pub(crate) fn parse(path: &str, query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape(name, true)?, unescape(value, true)?))
        });
        Self { path: path.to_owned(), pairs: pairs.collect() }
    }

    /// What is asked for: requests that ask for the same are the same here.
    pub(crate) fn cache_key(&self) -> String {
        let mut key = self.path.clone();
        for (name, value) in self.pairs.iter().filter(|(name, _)| !NON_KEY_PARAMS.contains(&name.as_str())) {
            // With their lengths, whatever letters are in them.
            key.push_str(&format!("\0{} {} {name}{value}", name.len(), value.len()));
        }
        key
    }

    /// A parameter's first value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// A parameter's first value; empty where there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Every value of a parameter that may be given more than once.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// A flag, where absent and empty are `default`.
    ///
    /// # Errors
    /// If it is no flag, with status 500 as the reference has it.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        match self.text(name) {
            "" => Ok(default),
            value => flag(value).ok_or_else(|| {
                Error::failed(format!(
                    "Failed to parse value of {} ({value}) as a bool: strconv.ParseBool: parsing {}: invalid syntax",
                    quoted(name),
                    quoted(value)
                ))
            }),
        }
    }

    /// Whether the answer is to be indented (http-api §1.7).
    pub(crate) fn pretty(&self) -> bool {
        self.get("pretty").is_some_and(|value| value != "0")
    }

    /// Which namespaces are meant.
    pub(crate) fn namespace(&self) -> Namespace {
        match self.text("namespace") {
            "" => Namespace::named(DEFAULT_NAMESPACE),
            name => Namespace::named(name),
        }
    }

    /// How fresh and how patient a read is to be.
    ///
    /// # Errors
    /// If a parameter cannot be read.
    pub(crate) fn read_options(&self) -> Result<ReadOptions, Error> {
        let stale = match self.get("stale") {
            None => false,
            Some("" | "true") => true,
            Some("false") => false,
            Some(_) => {
                return Err(Error::bad_request(
                    "Expect `true` or `false` for `stale` query string parameter",
                ));
            }
        };
        let wait = match self.text("wait") {
            "" => None,
            value => Some(duration::parse(value).map_err(|_| Error::bad_request("Invalid wait time"))?),
        };
        let index = match self.text("index") {
            "" => Index::ZERO,
            value => Index(value.parse().map_err(|_| Error::bad_request("Invalid index"))?),
        };
        let wait = wait.and_then(|nanos| u64::try_from(nanos).ok()).map(Duration::from_nanos);
        Ok(ReadOptions { stale, after: index, wait })
    }

    /// Which part of a list is meant.
    ///
    /// # Errors
    /// If a parameter cannot be read, or what it asks for is not built.
    pub(crate) fn page(&self) -> Result<Page<'_>, Error> {
        let limit =
            match self.text("per_page") {
                "" => None,
                value => Some(value.parse::<i64>().map_err(|_| {
                    Error::bad_request("Expect a number for `per_page` query string parameter")
                })?),
            };
        Ok(Page {
            // A negative page is an empty one.
            limit: limit.filter(|limit| *limit != 0).map(|limit| usize::try_from(limit).unwrap_or(0)),
            from: self.get("next_token").filter(|token| !token.is_empty()),
            reverse: self.flag("reverse", false)?,
        })
    }

    /// The filter of a list whose objects the API shows as `T` (http-api §7).
    ///
    /// # Errors
    /// If it is none for them.
    pub(crate) fn filter<T: DeserializeOwned>(&self) -> Result<Option<Filter>, Error> {
        Ok(filter::read::<T>(self.text("filter"))?)
    }
}

/// Namespaces that a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// Every one.
    Any,
    /// One.
    Only(String),
}

impl Namespace {
    /// The one of a name, or all of them.
    pub(crate) fn named(name: &str) -> Self {
        if name == ANY_NAMESPACE { Self::Any } else { Self::Only(name.to_owned()) }
    }

    /// The name of the one that an object is looked for in; that of all of them is `*`, which none has.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Any => ANY_NAMESPACE,
            Self::Only(name) => name,
        }
    }

    /// Whether a namespace is meant.
    pub(crate) fn holds(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only == name,
        }
    }
}

/// How fresh and how patient a read is to be (http-api §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadOptions {
    /// Whether what this process knows is enough.
    pub(crate) stale: bool,
    /// Wait until there is something after this index; 0 is not at all.
    pub(crate) after: Index,
    /// For how long; `None` is as long as usual.
    pub(crate) wait: Option<Duration>,
}

/// A part of a list (http-api §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page<'a> {
    /// The most items; `None` is all.
    pub(crate) limit: Option<usize>,
    /// Where it begins; `None` is at the beginning.
    pub(crate) from: Option<&'a str>,
    /// Whether the order is turned around.
    pub(crate) reverse: bool,
}

/// Go's words for truth and its opposite.
fn flag(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Undoes percent escapes, and in a query `+`. `None` if an escape is none, or the result is not UTF-8.
pub(crate) fn unescape(text: &str, in_query: bool) -> Option<String> {
    if !text.contains(['%', '+']) {
        return Some(text.to_owned());
    }
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if in_query => b' ',
            byte => byte,
        });
    }
    String::from_utf8(plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(result: Result<impl std::fmt::Debug, Error>) -> (u16, String) {
        let error = result.unwrap_err();
        (error.status.as_u16(), error.text)
    }

    #[test]
    fn the_same_is_asked_for_however_it_is_to_be_answered() {
        let key = |query| Query::parse("/v1/jobs", query).cache_key();
        assert_eq!(key("prefix=a&index=7&wait=1m&stale&pretty"), key("prefix=a"));
        assert_ne!(key("prefix=a"), key("prefix=b"));
        assert_ne!(key("a=%00b&c=d"), key("a=&b=&c=d"));
        assert_ne!(key("ab=c"), key("a=bc"));
        assert_ne!(Query::parse("/v1/nodes", "").cache_key(), key(""));
    }

    #[test]
    fn pairs_are_unescaped_and_broken_ones_left_out() {
        let query = Query::parse("", "a=x%20y+z&b&prefix=%zz&%ff=1&a=2&&c=%2F");
        assert_eq!(query.get("a"), Some("x y z"));
        assert_eq!(query.get("b"), Some(""));
        assert_eq!(query.get("prefix"), None);
        assert_eq!(query.get("c"), Some("/"));
        assert_eq!(unescape("a+b%2Fc", false).as_deref(), Some("a+b/c"));
        assert_eq!(unescape("%", false), None);
    }

    #[test]
    fn freshness_and_patience() {
        let read_options = |query| Query::parse("", query).read_options();
        let plain = ReadOptions { stale: false, after: Index::ZERO, wait: None };
        assert_eq!(read_options(""), Ok(plain));
        assert_eq!(read_options("stale&index=&wait=-5s"), Ok(ReadOptions { stale: true, ..plain }));
        let blocking = ReadOptions { stale: false, after: Index(7), wait: Some(Duration::from_secs(90)) };
        assert_eq!(read_options("stale=false&index=7&wait=1m30s"), Ok(blocking));
        assert_eq!(status(read_options("index=-1")), (400, "Invalid index".to_owned()));
        assert_eq!(status(read_options("index=99999999999999999999999")), (400, "Invalid index".to_owned()));
        assert_eq!(status(read_options("wait=5")), (400, "Invalid wait time".to_owned()));
        assert_eq!(
            status(read_options("stale=1")),
            (400, "Expect `true` or `false` for `stale` query string parameter".to_owned())
        );
    }

    #[test]
    fn pages() {
        let limit = |query| Query::parse("", query).page().map(|page| page.limit);
        assert_eq!(limit(""), Ok(None));
        assert_eq!(limit("per_page=0"), Ok(None));
        assert_eq!(limit("per_page=-1"), Ok(Some(0)));
        assert_eq!(limit("per_page=25"), Ok(Some(25)));
        assert_eq!(
            status(limit("per_page=x")),
            (400, "Expect a number for `per_page` query string parameter".to_owned())
        );
    }

    #[test]
    fn flags_are_those_of_go() {
        let query = Query::parse("", "yes=True&no=F&bad=maybe&empty=");
        assert_eq!(query.flag("yes", false), Ok(true));
        assert_eq!(query.flag("no", true), Ok(false));
        assert_eq!(query.flag("empty", true), Ok(true));
        assert_eq!(query.flag("absent", true), Ok(true));
        assert_eq!(
            status(query.flag("bad", true)),
            (
                500,
                r#"Failed to parse value of "bad" (maybe) as a bool: strconv.ParseBool: parsing "maybe": invalid syntax"#
                    .to_owned()
            )
        );
    }

    #[test]
    fn indentation_is_asked_for_by_the_name_alone() {
        let pretty = |query| Query::parse("", query).pretty();
        assert!(pretty("pretty") && pretty("pretty=true") && pretty("pretty="));
        assert!(!pretty("") && !pretty("pretty=0"));
    }
}
