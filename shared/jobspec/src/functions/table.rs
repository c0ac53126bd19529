//! The table of all functions.

use super::{
    Function, Parameter, collections, encoding, files, format, hashes, network, numbers, regex, sets, text,
    time, yaml,
};

/// The function with a name.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    TABLE.binary_search_by_key(&name, |function| function.name).ok().map(|at| &TABLE[at])
}

/// The names of all functions.
pub(super) fn names() -> Vec<&'static str> {
    let lazy = ["can", "convert", "try"];
    TABLE.iter().map(|function| function.name).chain(lazy).collect()
}

macro_rules! functions {
    ($($name:ident($($parameter:ident),*$(; $rest:ident)?) = $run:path;)*) => {
        &[$(Function {
            name: stringify!($name),
            parameters: &[$(Parameter::$parameter),*],
            rest: functions!(@rest $($rest)?),
            run: $run,
        }),*]
    };
    (@rest) => { None };
    (@rest $rest:ident) => { Some(Parameter::$rest) };
}

/// Sorted by name. The kind after a semicolon is that of further arguments.
static TABLE: &[Function] = functions! {
    abs(Number) = numbers::abs;
    abspath(Text) = files::abspath;
    base64decode(Text) = encoding::base64decode;
    base64encode(Text) = encoding::base64encode;
    basename(Text) = files::basename;
    bcrypt(Text; Number) = hashes::bcrypt;
    ceil(Number) = numbers::ceil;
    chomp(Text) = text::chomp;
    chunklist(List, Number) = collections::chunklist;
    cidrhost(Text, Number) = network::cidrhost;
    cidrnetmask(Text) = network::cidrnetmask;
    cidrsubnet(Text, Number, Number) = network::cidrsubnet;
    cidrsubnets(Text; Number) = network::cidrsubnets;
    coalesce(; Nullable) = collections::coalesce;
    coalescelist(; Nullable) = collections::coalescelist;
    compact(Texts) = collections::compact;
    concat(Any; Any) = collections::concat;
    contains(Any, Any) = collections::contains;
    csvdecode(Text) = encoding::csvdecode;
    dirname(Text) = files::dirname;
    distinct(List) = collections::distinct;
    element(Any, Number) = collections::element;
    file(Text) = files::file;
    filebase64(Text) = files::filebase64;
    fileexists(Text) = files::fileexists;
    fileset(Text, Text) = files::fileset;
    flatten(Any) = collections::flatten;
    floor(Number) = numbers::floor;
    format(Text; Nullable) = format::format;
    formatdate(Text, Text) = time::formatdate;
    formatlist(Text; Nullable) = format::formatlist;
    indent(Number, Text) = text::indent;
    index(Any, Any) = collections::index;
    join(Text, Texts; Texts) = text::join;
    jsondecode(Text) = encoding::jsondecode;
    jsonencode(Nullable) = encoding::jsonencode;
    keys(Any) = collections::keys;
    length(Any) = collections::length;
    log(Number, Number) = numbers::log;
    lookup(Any, Text, Nullable) = collections::lookup;
    lower(Text) = text::lower;
    max(; Number) = numbers::max;
    md5(Text) = hashes::md5;
    merge(; Nullable) = collections::merge;
    min(; Number) = numbers::min;
    parseint(Text, Number) = numbers::parseint;
    pathexpand(Text) = files::pathexpand;
    pow(Number, Number) = numbers::pow;
    range(; Number) = numbers::range;
    regex_replace(Text, Text, Text) = regex::regex_replace;
    replace(Text, Text, Text) = text::replace;
    reverse(Text) = text::reverse;
    rsadecrypt(Text, Text) = hashes::rsadecrypt;
    setintersection(Set; Set) = sets::setintersection;
    setproduct(; Any) = sets::setproduct;
    setunion(Set; Set) = sets::setunion;
    sha1(Text) = hashes::sha1;
    sha256(Text) = hashes::sha256;
    sha512(Text) = hashes::sha512;
    signum(Number) = numbers::signum;
    slice(Any, Number, Number) = collections::slice;
    sort(Texts) = collections::sort;
    split(Text, Text) = text::split;
    strlen(Text) = text::strlen;
    strrev(Text) = text::reverse;
    substr(Text, Number, Number) = text::substr;
    timeadd(Text, Text) = time::timeadd;
    title(Text) = text::title;
    trim(Text, Text) = text::trim;
    trimprefix(Text, Text) = text::trimprefix;
    trimspace(Text) = text::trimspace;
    trimsuffix(Text, Text) = text::trimsuffix;
    upper(Text) = text::upper;
    urlencode(Text) = encoding::urlencode;
    uuidv4() = hashes::uuidv4;
    uuidv5(Text, Text) = hashes::uuidv5;
    values(Any) = collections::values;
    yamldecode(Text) = yaml::yamldecode;
    yamlencode(Nullable) = yaml::yamlencode;
    zipmap(Texts, Any) = collections::zipmap;
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_whole() {
        assert!(TABLE.is_sorted_by_key(|function| function.name));
        assert_eq!(names().len(), 83);
    }
}
