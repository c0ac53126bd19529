//! Query parameters (http-api §3).

use std::time::Duration;

use api_types::duration;
use model::text::quoted;
use model::{Index, cluster};
use serde::de::DeserializeOwned;

use super::path::unescape_query;
use super::{Error, page_token};
use crate::filter::{self, Filter};
use crate::settings::Limits;

/// The parameter value that selects all namespaces.
const ANY_NAMESPACE: &str = "*";

/// The parameter with the token of a page.
const NEXT_TOKEN: &str = "next_token";

/// Parameters that affect when and how a response is sent, but not its content.
const NON_KEY_PARAMS: [&str; 5] = ["index", "wait", "stale", "consistent", "pretty"];

/// Path and query parameters of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    path: String,
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Parses the query string of a path. Pairs with invalid percent escapes, or with a semicolon that is not escaped, are
    /// ignored.
    pub(crate) fn parse(path: &str, query: &str) -> Self {
        let is_pair = |pair: &&str| !pair.is_empty() && !pair.contains(';');
        let pairs = query.split('&').filter(is_pair).filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (unescape_query(name)?, unescape_query(value)?);
            let is_token = name == NEXT_TOKEN;
            Some((name, if is_token { page_token::from_parameter(&value) } else { value }))
        });
        Self { path: path.to_owned(), pairs: pairs.collect() }
    }

    /// A key that is equal for two requests exactly if they request the same content.
    pub(crate) fn cache_key(&self) -> String {
        let mut key = self.path.clone();
        for (name, value) in self.pairs.iter().filter(|(name, _)| !NON_KEY_PARAMS.contains(&name.as_str())) {
            // The lengths make the key unambiguous, whatever characters name and value contain.
            key.push_str(&format!("\0{} {} {name}{value}", name.len(), value.len()));
        }
        key
    }

    /// First value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// First value of a parameter; empty if it is absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values of a parameter that may be repeated.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Value of a boolean parameter; `default` if it is absent or empty.
    ///
    /// # Errors
    /// A 500 if the value is not a boolean, as in the reference.
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

    /// Value of an integer parameter; `None` if it is absent or empty.
    ///
    /// # Errors
    /// A 500 if the value is not an integer, as in the reference.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Error> {
        match self.text(name) {
            "" => Ok(None),
            value => integer(value).map(Some).map_err(|problem| {
                let (name, quoted) = (quoted(name), quoted(value));
                Error::failed(format!(
                    "Failed to parse value of {name} ({value}) as a int: strconv.Atoi: parsing {quoted}: {problem}"
                ))
            }),
        }
    }

    /// Whether the response is to be indented (http-api §1.7).
    pub(crate) fn pretty(&self) -> bool {
        self.get("pretty").is_some_and(|value| value != "0")
    }

    /// Namespaces that the request selects.
    pub(crate) fn namespace(&self) -> Namespace {
        match self.text("namespace") {
            "" => Namespace::named(cluster::Namespace::DEFAULT),
            name => Namespace::named(name),
        }
    }

    /// Consistency and blocking options of a read.
    ///
    /// # Errors
    /// If a parameter is malformed. All reads check the size of pages, also those without pages.
    pub(crate) fn read_options(&self) -> Result<ReadOptions, Error> {
        let stale = match self.get("stale") {
            None => false,
            Some("") => true,
            Some(value) => flag(value).ok_or_else(|| {
                Error::bad_request("Expect `true` or `false` for `stale` query string parameter")
            })?,
        };
        let wait = match self.text("wait") {
            "" => None,
            value => Some(duration::parse(value).map_err(|_| Error::bad_request("Invalid wait time"))?),
        };
        let index = match self.text("index") {
            "" => Index::ZERO,
            value => Index(unsigned(value).map_err(|_| Error::bad_request("Invalid index"))?),
        };
        self.per_page()?;
        let wait = wait.and_then(|nanos| u64::try_from(nanos).ok()).map(Duration::from_nanos);
        Ok(ReadOptions { stale, after: index, wait })
    }

    fn per_page(&self) -> Result<Option<i32>, Error> {
        let malformed = |_| Error::bad_request("Expect a number for `per_page` query string parameter");
        match self.text("per_page") {
            "" => Ok(None),
            value => value.parse().map(Some).map_err(malformed),
        }
    }

    /// The requested page of a list.
    ///
    /// # Errors
    /// If a parameter that all reads have, or one of the page, is malformed.
    pub(crate) fn page(&self) -> Result<Page<'_>, Error> {
        self.read_options()?;
        // A negative page size requests an empty page.
        let limit = self.per_page()?.filter(|limit| *limit != 0);
        Ok(Page {
            limit: limit.map(|limit| usize::try_from(limit).unwrap_or(0)),
            from: self.get(NEXT_TOKEN).filter(|token| !token.is_empty()),
            // No other spelling counts.
            reverse: self.text("reverse") == "true",
        })
    }

    /// The filter of a list whose objects the API shows as `T` (http-api §7); `None` if there is none.
    ///
    /// # Errors
    /// If the expression is malformed. One that does not fit `T` fails when an object is compared with it.
    pub(crate) fn filter<T: DeserializeOwned>(&self, limits: &Limits) -> Result<Option<Filter>, Error> {
        Ok(filter::read::<T>(self.text("filter"), limits.filter)?)
    }
}

/// Namespaces that a request selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// All namespaces.
    Any,
    /// One namespace.
    Only(String),
}

impl Namespace {
    /// Parses a parameter value: a name, or `*` for all namespaces.
    pub(crate) fn named(name: &str) -> Self {
        if name == ANY_NAMESPACE { Self::Any } else { Self::Only(name.to_owned()) }
    }

    /// Name of the namespace in which an object is looked up; `*`, which is no valid name, for all namespaces.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Any => ANY_NAMESPACE,
            Self::Only(name) => name,
        }
    }

    /// Whether the namespace `name` is selected.
    pub(crate) fn holds(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only == name,
        }
    }
}

/// Consistency and blocking options of a read (http-api §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadOptions {
    /// Whether the local replica is fresh enough as it is.
    pub(crate) stale: bool,
    /// Blocks until the index exceeds this one; 0 does not block.
    pub(crate) after: Index,
    /// Maximum time to block; `None` is the default.
    pub(crate) wait: Option<Duration>,
}

/// A page of a list (http-api §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page<'a> {
    /// Maximum number of items; `None` requests the whole list.
    pub(crate) limit: Option<usize>,
    /// Token of the first item; `None` begins at the start of the list.
    pub(crate) from: Option<&'a str>,
    /// Whether the order is reversed.
    pub(crate) reverse: bool,
}

/// Parses a boolean like Go's `strconv.ParseBool`.
fn flag(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Parses an integer like Go's `strconv.Atoi`. The error is what that function says.
pub(crate) fn integer(text: &str) -> Result<i64, &'static str> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    text.parse().map_err(|_| "value out of range")
}

/// Parses an integer without a sign like Go's `strconv.ParseUint`. The error is what that function says.
pub(crate) fn unsigned(text: &str) -> Result<u64, &'static str> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    text.parse().map_err(|_| "value out of range")
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
        let query = Query::parse("", "a=x%20y+z&b&prefix=%zz&g=%ff&a=2&&c=%2F&d=1;e=2&f=%3B");
        assert_eq!(query.get("g"), Some("\u{fffd}"), "no name equals it");
        assert_eq!((query.get("d"), query.get("f")), (None, Some(";")));
        assert_eq!(query.get("a"), Some("x y z"));
        assert_eq!(query.get("b"), Some(""));
        assert_eq!(query.get("prefix"), None);
        assert_eq!(query.get("c"), Some("/"));
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
        assert_eq!(status(read_options("index=%2B7")), (400, "Invalid index".to_owned()));
        assert_eq!(status(read_options("wait=5")), (400, "Invalid wait time".to_owned()));
        let stale = |query| read_options(query).map(|options| options.stale);
        assert_eq!(
            (stale("stale=1"), stale("stale=TRUE"), stale("stale=F")),
            (Ok(true), Ok(true), Ok(false))
        );
        assert_eq!(
            status(read_options("stale=x")),
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
        let reverse = |query| Query::parse("", query).page().map(|page| page.reverse);
        assert_eq!(
            (reverse("reverse=true"), reverse("reverse=1"), reverse("reverse=x")),
            (Ok(true), Ok(false), Ok(false))
        );
        assert_eq!(status(limit("per_page=2147483648")).0, 400, "it is a number of 32 bits");
        assert_eq!(status(limit("per_page=1&stale=x")).0, 400);
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
    fn integers_are_those_of_go() {
        let query = Query::parse("", "one=-1&plus=%2B7&empty=&bad=x&large=99999999999999999999");
        assert_eq!(query.integer("one"), Ok(Some(-1)));
        assert_eq!(query.integer("plus"), Ok(Some(7)));
        assert_eq!((query.integer("empty"), query.integer("absent")), (Ok(None), Ok(None)));
        assert_eq!(
            status(query.integer("bad")),
            (
                500,
                r#"Failed to parse value of "bad" (x) as a int: strconv.Atoi: parsing "x": invalid syntax"#
                    .to_owned()
            )
        );
        assert!(status(query.integer("large")).1.ends_with(": value out of range"));
        assert_eq!(
            (unsigned("7"), unsigned("+7"), unsigned("")),
            (Ok(7), Err("invalid syntax"), Err("invalid syntax"))
        );
    }

    #[test]
    fn indentation_is_asked_for_by_the_name_alone() {
        let pretty = |query| Query::parse("", query).pretty();
        assert!(pretty("pretty") && pretty("pretty=true") && pretty("pretty="));
        assert!(!pretty("") && !pretty("pretty=0"));
    }
}
