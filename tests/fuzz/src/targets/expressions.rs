//! Expressions of job files, and the data of their functions.

use jobspec::{Options, Variables};

use super::job_files::parse;
use crate::seeds::{self, SEPARATOR};
use crate::target::{Repeated, Target};

/// Expressions with all functions.
pub static EXPRESSION: Target = Target {
    name: "expression",
    run: expression,
    seeds: || {
        let lines = |source: String| source.lines().map(str::to_owned).collect::<Vec<_>>();
        let value = |line: String| line.split_once(" = ").map(|(_, value)| value.to_owned());
        seeds::texts(seeds::job_files().flat_map(lines).filter_map(value))
    },
    words: &[
        "abs(",
        "base64decode(",
        "can(",
        "ceil(",
        "chunklist(",
        "cidrhost(",
        "cidrsubnet(",
        "cidrsubnets(",
        "coalesce(",
        "concat(",
        "convert(",
        "csvdecode(",
        "element(",
        "flatten(",
        "floor(",
        "format(",
        "formatdate(",
        "formatlist(",
        "indent(",
        "index(",
        "join(",
        "jsondecode(",
        "jsonencode(",
        "keys(",
        "length(",
        "log(",
        "lookup(",
        "max(",
        "merge(",
        "parseint(",
        "pow(",
        "range(",
        "regex_replace(",
        "replace(",
        "reverse(",
        "setproduct(",
        "setunion(",
        "signum(",
        "slice(",
        "sort(",
        "split(",
        "strlen(",
        "substr(",
        "timeadd(",
        "title(",
        "trim(",
        "try(",
        "urlencode(",
        "uuidv5(",
        "values(",
        "yamldecode(",
        "yamlencode(",
        "zipmap(",
        "local.l",
        "local.m",
        ", ",
        ")",
        "[for x in ",
        " : ",
        "%{ if ",
        "1e999",
        "\"%d\"",
        "\"%1000s\"",
        "null",
        "true",
        "map(string)",
        "list(any)",
        "...",
    ],
    repeated: &[
        Repeated { before: "", open: "abs(", middle: "1", close: ")", after: "" },
        Repeated { before: "", open: "[", middle: "", close: "]", after: "" },
        Repeated { before: "concat(", open: "[1],", middle: "[]", close: "", after: ")" },
        Repeated { before: "flatten([", open: "[1],", middle: "[]", close: "", after: "])" },
        Repeated { before: "distinct([0", open: ",1", middle: "", close: "", after: "])" },
        Repeated { before: "sort([\"0\"", open: ",\"1\"", middle: "", close: "", after: "])" },
        Repeated {
            before: "regex_replace(\"",
            open: "a",
            middle: "",
            close: "",
            after: "\", \".*$\", \"b\")",
        },
        Repeated {
            before: "regex_replace(\"",
            open: "a",
            middle: "",
            close: "",
            after: "\", \"a*b\", \"b\")",
        },
        Repeated {
            before: "replace(\"",
            open: "a",
            middle: "",
            close: "",
            after: "\", \"\", \"bbbbbbbbbbbbbbbb\")",
        },
        Repeated { before: "title(\"", open: "a ", middle: "", close: "", after: "\")" },
        Repeated { before: "reverse(\"", open: "\u{1f1e6}", middle: "", close: "", after: "\")" },
        Repeated { before: "parseint(\"", open: "z", middle: "", close: "", after: "\", 36)" },
        Repeated { before: "jsondecode(\"", open: "[", middle: "", close: "]", after: "\")" },
        Repeated { before: "setproduct([1,2]", open: ",[1,2]", middle: "", close: "", after: ")" },
        Repeated { before: "1", open: "*1.5", middle: "", close: "", after: "" },
        Repeated { before: "10", open: "*10", middle: "", close: "", after: "" },
    ],
    size_max: 1 << 20,
};

/// Data of functions: a byte that selects the call, and the texts `a`, `b` and `c`.
pub static FUNCTION_DATA: Target = Target {
    name: "function_data",
    run: function_data,
    seeds: || {
        let texts = [
            "a: &a [1, 2]\nb: *a\nc: {<<: {x: 1}}\nd: |\n  text\n",
            "- 2024-01-01\n- 0x1F\n- .inf\n- !!str 1\n- \"\\x41\"\n",
            "{\"a\": [1, 1.5e3, null, true, \"\\u00e9\"]}",
            "name,age\na,1\n\"b,c\",2\n",
            "aGVsbG8=",
            "2024-01-31T12:00:00.5+02:00\u{1e}1h30m\u{1e}x",
            "YYYY-MM-DD'T'hh:mm:ssZ\u{1e}2024-01-31T12:00:00Z",
            "hello world\u{1e}(?P<w>w.*)\u{1e}${w}$0",
            "%-10s|%05.2f|%v\u{1e}12\u{1e}x",
            "10.0.0.0/8\u{1e}3\u{1e}4",
            "2001:db8::/32\u{1e}1\u{1e}2",
            "ff\u{1e}16",
            "dns\u{1e}example.org",
            " text \n",
        ];
        let calls = 0..u8::try_from(CALLS.len()).unwrap_or(u8::MAX);
        let with_text = |call: u8| texts.map(|text| [&[call][..], text.as_bytes()].concat());
        calls.flat_map(with_text).collect()
    },
    words: &[
        "\u{1e}",
        "&a ",
        "*a",
        "<<: ",
        "- ",
        ": ",
        "? ",
        "|\n",
        ">-\n",
        "!!binary ",
        "!!float ",
        "---\n",
        "...\n",
        "# ",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "%d",
        "%*s",
        "%#v",
        "%[2]s",
        "$1",
        "${1}",
        "(?:",
        "*",
        "+?",
        "\\b",
        "YYYY",
        "EEE",
        "ZZZZ",
        "'",
        "T",
        "Z",
        "+23:59",
        "/32",
        "::",
        "1e9",
        "\u{feff}",
        "\u{85}",
        "\u{2028}",
    ],
    repeated: &[
        Repeated { before: "\0", open: "[", middle: "", close: "]", after: "" },
        Repeated { before: "\0- &a x\n", open: "- &a [*a]\n", middle: "", close: "", after: "" },
        Repeated { before: "\0- &a x\n", open: "- &a [*a,*a]\n", middle: "", close: "", after: "" },
        Repeated { before: "\0", open: "- ", middle: "x", close: "", after: "\n" },
        Repeated { before: "\0", open: "? ", middle: "x", close: "", after: "\n" },
        Repeated { before: "\0", open: "- 1\n", middle: "", close: "", after: "" },
        Repeated { before: "\0", open: "a", middle: ": 1\n", close: "", after: "" },
        Repeated { before: "\u{1}", open: "[", middle: "", close: "]", after: "" },
        Repeated { before: "\u{1}[1", open: ",1", middle: "", close: "", after: "]" },
        Repeated { before: "\u{2}a\n", open: "1\n", middle: "", close: "", after: "" },
        Repeated { before: "\u{2}a", open: ",a", middle: "\n1", close: ",1", after: "" },
        Repeated { before: "\u{6}", open: "a", middle: "\u{1e}.*$", close: "", after: "\u{1e}b" },
        Repeated { before: "\u{6}", open: "a", middle: "\u{1e}(a*)*b", close: "", after: "\u{1e}b" },
        Repeated { before: "\u{8}", open: "%s", middle: "\u{1e}x", close: "", after: "" },
    ],
    size_max: 1 << 20,
};

/// Calls with the variables `a`, `b` and `c`. Patterns of large inputs name them by their position.
const CALLS: [&str; 30] = [
    "yamldecode(var.a)",
    "jsondecode(var.a)",
    "csvdecode(var.a)",
    "base64decode(var.a)",
    "formatdate(var.a, var.b)",
    "timeadd(var.a, var.b)",
    "regex_replace(var.a, var.b, var.c)",
    "replace(var.a, var.b, var.c)",
    "format(var.a, var.b, var.c)",
    "formatlist(var.a, split(var.b, var.c))",
    "cidrsubnets(var.a, 4, 4, 8)",
    "cidrsubnet(var.a, convert(var.b, number), convert(var.c, number))",
    "cidrhost(var.a, convert(var.b, number))",
    "cidrnetmask(var.a)",
    "parseint(var.a, convert(var.b, number))",
    "pow(convert(var.a, number), convert(var.b, number))",
    "log(convert(var.a, number), convert(var.b, number))",
    "floor(convert(var.a, number)) + ceil(convert(var.b, number))",
    "convert(var.a, number) / convert(var.b, number) % convert(var.c, number)",
    "substr(var.a, convert(var.b, number), convert(var.c, number))",
    "indent(convert(var.b, number), var.a)",
    "[title(var.a), upper(var.a), lower(var.a), reverse(var.a), chomp(var.a), strlen(var.a)]",
    "[trim(var.a, var.b), trimprefix(var.a, var.b), trimsuffix(var.a, var.b), trimspace(var.a)]",
    "split(var.a, var.b)",
    "uuidv5(var.a, var.b)",
    "rsadecrypt(var.a, var.b)",
    "[urlencode(var.a), base64encode(var.a), sha512(var.a), md5(var.a)]",
    "yamlencode(jsondecode(var.a))",
    "jsonencode(yamldecode(var.a))",
    SAME_AFTER_ENCODING,
];

/// Whether a text is the same after it was encoded and decoded.
const SAME_AFTER_ENCODING: &str = "[\
    jsondecode(jsonencode(var.a)) == var.a, \
    yamldecode(yamlencode(var.a)) == var.a, \
    base64decode(base64encode(var.a)) == var.a]";

fn expression(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let source = format!(
        "locals {{\n  l = [1, \"x\", {{ a = 2 }}]\n  m = convert({{ k = \"v\" }}, map(string))\n  a = {text}\n}}\n\
         job \"e\" {{\n  meta {{\n    json = jsonencode(local.a)\n    yaml = yamlencode(local.a)\n  }}\n}}\n"
    );
    parse(&source, &Options::default());
}

fn function_data(input: &[u8]) {
    let Some((call, data)) = input.split_first() else { return };
    let Ok(data) = std::str::from_utf8(data) else { return };
    let call = CALLS[usize::from(*call) % CALLS.len()];
    let mut source = String::new();
    let mut variables = Vec::new();
    let mut texts = data.splitn(3, SEPARATOR);
    for name in ["a", "b", "c"] {
        source.push_str(&format!("variable \"{name}\" {{ type = string }}\n"));
        let value = texts.next().unwrap_or_default().to_owned();
        variables.push(Variables::Flag { name: name.to_owned(), value });
    }
    source.push_str(&format!("job \"f\" {{ name = jsonencode({call}) }}\n"));
    let job = parse(&source, &Options { variables, ..Options::default() });
    // Other texts are normalised when they are decoded.
    if let Some(job) = job.filter(|_| call == SAME_AFTER_ENCODING && data.is_ascii()) {
        assert_eq!(job.name.as_deref(), Some("[true,true,true]"), "encoding and decoding changes {data:?}");
    }
}
