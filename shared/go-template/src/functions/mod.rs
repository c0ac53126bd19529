//! The functions that templates can call. Each checks its arguments; what all have in common is in [`all`].

mod builtin;
mod data;
mod encoding;
mod lists;
mod numbers;
mod sprig;
mod texts;
mod times;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use gotmpl::{FuncMap, TemplateError, Value, ValueFunc};

use crate::Data;
use crate::arguments::Arguments;
use crate::limits::Meter;
use crate::value::size;

/// What the functions of one rendering share.
pub(crate) struct World {
    /// Where data comes from.
    pub(crate) data: Arc<dyn Data>,
    /// What the rendering uses.
    pub(crate) meter: Meter,
    /// The data that is not known yet.
    pub(crate) missing: Mutex<BTreeSet<String>>,
}

/// A function.
type Call = fn(&World, Arguments<'_>) -> Result<Value, String>;

/// A function with its name.
type Named = (&'static str, Call);

/// All functions that are built, by subject.
const BUILT: [&[Named]; 8] = [
    builtin::FUNCTIONS,
    data::FUNCTIONS,
    encoding::FUNCTIONS,
    lists::FUNCTIONS,
    numbers::FUNCTIONS,
    sprig::FUNCTIONS,
    texts::FUNCTIONS,
    times::FUNCTIONS,
];

const CONSUL: &str = "it needs Consul, which agents of this cluster do not use";
const VAULT: &str = "it needs Vault, which agents of this cluster do not use";
const VARIABLES: &str = "there are no variables in this cluster";
const WRITES: &str = "templates cannot run programs, write files or render other templates here";
const NOT_BUILT: &str = "the function is not built";

/// Functions of consul-template that are refused when a template calls them, each with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("byKey", CONSUL),
    ("caLeaf", CONSUL),
    ("caRoots", CONSUL),
    ("connect", CONSUL),
    ("datacenters", CONSUL),
    ("executeTemplate", WRITES),
    ("explode", CONSUL),
    ("exportedServices", CONSUL),
    ("key", CONSUL),
    ("keyExists", CONSUL),
    ("keyExistsGet", CONSUL),
    ("keyOrDefault", CONSUL),
    ("ls", CONSUL),
    ("node", CONSUL),
    ("nodes", CONSUL),
    ("nomadVar", VARIABLES),
    ("nomadVarExists", VARIABLES),
    ("nomadVarList", VARIABLES),
    ("nomadVarListSafe", VARIABLES),
    ("parseYAML", NOT_BUILT),
    ("partitions", CONSUL),
    ("peerings", CONSUL),
    ("pkiCert", VAULT),
    ("plugin", WRITES),
    ("safeLs", CONSUL),
    ("safeTree", CONSUL),
    ("scratch", NOT_BUILT),
    ("secret", VAULT),
    ("secrets", VAULT),
    ("service", CONSUL),
    ("services", CONSUL),
    ("sockaddr", NOT_BUILT),
    ("spew_dump", NOT_BUILT),
    ("spew_printf", NOT_BUILT),
    ("spew_sdump", NOT_BUILT),
    ("spew_sprintf", NOT_BUILT),
    ("tree", CONSUL),
    ("writeToFile", WRITES),
];

/// Whether templates may name a function, even if it is refused when it is called.
pub fn is_known(name: &str) -> bool {
    builtin::OF_ENGINE.contains(&name)
        || BUILT.iter().any(|group| group.iter().any(|(known, _)| *known == name))
        || REFUSED.iter().any(|(known, _)| *known == name)
}

/// All functions of a rendering. Each call is a step, and the values that functions take and return are bounded.
pub(crate) fn all(world: &Arc<World>, denied: &[String]) -> FuncMap {
    let built = BUILT.iter().copied().flatten();
    let mut functions: FuncMap =
        built.map(|&(name, call)| (name.to_owned(), wrapped(world, name, call))).collect();
    for (name, reason) in REFUSED {
        functions.insert((*name).to_owned(), refused((*name).to_owned(), (*reason).to_owned()));
    }
    for name in denied {
        functions
            .insert(name.clone(), refused(name.clone(), "the operator of this node denies it".to_owned()));
    }
    functions
}

fn wrapped(world: &Arc<World>, name: &'static str, call: Call) -> ValueFunc {
    let world = Arc::clone(world);
    Arc::new(move |arguments: &[Value]| {
        called(&world, call, arguments).map_err(|error| TemplateError::Exec(format!("{name}: {error}")))
    })
}

fn called(world: &World, call: Call, arguments: &[Value]) -> Result<Value, String> {
    let World { data, meter, .. } = world;
    // A call may take as long as many other steps.
    meter
        .step(|| false)
        .and_then(|()| meter.look(data.is_out_of_time()))
        .map_err(|limit| limit.to_string())?;
    let measured = |value: &Value| {
        size(value).map_err(|limit| {
            // The error ends the rendering, which takes the limit from the meter.
            let _ = meter.exceed(limit);
            limit.to_string()
        })
    };
    for argument in arguments {
        measured(argument)?;
    }
    let result = call(world, Arguments(arguments))?;
    meter.produce(measured(&result)?).map_err(|limit| limit.to_string())?;
    Ok(result)
}

fn refused(name: String, reason: String) -> ValueFunc {
    Arc::new(move |_: &[Value]| Err(TemplateError::Exec(format!("{name}: {reason}"))))
}
