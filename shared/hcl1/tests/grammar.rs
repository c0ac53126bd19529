//! Tests of the grammar by example (`docs/rules/agent.md` A-33): texts and their trees, and messages for texts that are not valid
//! HCL or JSON.

use hcl1::{BYTES_MAX, Body, DEPTH_MAX, Error, Kind, Syntax, VALUES_MAX, Value};

fn hcl(text: &str) -> Result<Body, Error> {
    hcl1::parse(text.as_bytes(), Syntax::Hcl)
}

fn json(text: &str) -> Result<Body, Error> {
    hcl1::parse(text.as_bytes(), Syntax::Json)
}

/// The tree as one line of text.
fn render(body: &Body) -> String {
    let items: Vec<String> =
        body.items.iter().map(|item| format!("{}={}", item.key, render_value(&item.value))).collect();
    items.join(" ")
}

fn render_value(value: &Value) -> String {
    match &value.kind {
        Kind::Text(text) => format!("{text:?}"),
        Kind::Number(number) => number.text.clone(),
        Kind::Bool(value) => value.to_string(),
        Kind::List(values) => format!("[{}]", values.iter().map(render_value).collect::<Vec<_>>().join(" ")),
        Kind::Body(body) => format!("{{{}}}", render(body)),
        Kind::Null => "null".to_owned(),
    }
}

#[track_caller]
fn parses(text: &str, expected: &str) {
    match hcl(text) {
        Ok(body) => assert_eq!(render(&body), expected, "{text}"),
        Err(error) => panic!("{text}: {error}"),
    }
}

#[track_caller]
fn fails(text: &str, expected: &str) {
    let error = hcl(text).map(|body| render(&body)).expect_err(text).to_string();
    assert!(error.starts_with(expected), "{text}: {error}");
}

#[test]
fn items_are_separated_by_space_or_a_comma() {
    parses("", "");
    parses("a = 1 b = 2", "a=1 b=2");
    parses("a = 1, b = 2,", "a=1 b=2");
    parses("a=1\r\nb=2\r\n", "a=1 b=2");
    parses("a { b = \"c\" \"c.d\" = \"e\" }, f {}", "a={b=\"c\" c.d=\"e\"} f={}");
    parses("plugin \"docker\" { config { endpoint = \"x\" } }", "plugin={docker={config={endpoint=\"x\"}}}");
    parses("a b \"c\" { d = 1 }", "a={b={c={d=1}}}");
    parses("a = { b = 1 }", "a={b=1}");
    parses("a.b-c_d = 1 \u{e9}t\u{e9} = 2", "a.b-c_d=1 \u{e9}t\u{e9}=2");
    parses("a = 1 a = 2", "a=1 a=2");
}

#[test]
fn comments_are_left_out() {
    parses("# a\na = 1 # b\n// c\nb = 2 // d\n/* e\n f */ c = 3 /**/", "a=1 b=2 c=3");
    parses("a = \"# no // comment /* here\"", "a=\"# no // comment /* here\"");
}

#[test]
fn strings_have_escapes_and_keep_interpolations() {
    parses(
        r#"a = "\n\t\r\"\\\u00e9\101\x41\xc3\xa9\U0001f600""#,
        "a=\"\\n\\t\\r\\\"\\\\\u{e9}AA\u{e9}\u{1f600}\"",
    );
    parses(r#"a = "${HOME}-x""#, "a=\"${HOME}-x\"");
    parses(r#"a = "${f("x", "{y}")}" b = 1"#, r#"a="${f(\"x\", \"{y}\")}" b=1"#);
    parses("a = \"${\n}\"", "a=\"${\\n}\"");
    parses("a = \"$x {y}\"", "a=\"$x {y}\"");
}

#[test]
fn heredocs_end_with_their_marker() {
    parses("a = <<EOF\nb\n  c\nEOF\nd = 1", "a=\"b\\n  c\\n\" d=1");
    parses("a = <<EOF\nEOF", "a=\"\"");
    parses("a = <<-EOF\n    b\n\n      c\n    EOF\n", "a=\"b\\n\\n  c\\n\"");
    parses("a = <<-EOF\n  b\n    c\n    EOF\n", "a=\"  b\\n    c\\n\"");
    parses("a = <<EOF\r\nb\r\nEOF\r\n", "a=\"b\\r\\n\"");
    parses("a = <<EOF\nEOFS\n EOF x\nEOF\n", "a=\"EOFS\\n EOF x\\n\"");
}

#[test]
fn numbers_bools_and_lists() {
    parses("a = -1 b = 0x10 c = 1.5 d = 4e3 e = 1e-3 f = +2", "a=-1 b=0x10 c=1.5 d=4e3 e=1e-3 f=+2");
    parses("a = true b = false", "a=true b=false");
    parses("a = [1, \"b\", [true], { c = 1 },]", "a=[1 \"b\" [true] {c=1}]");
    parses("a = []", "a=[]");
    parses("a = [\n# none\n]", "a=[]");
}

#[test]
fn errors_have_a_place_and_a_text() {
    fails("a = 1; b = 2", "At 1:6: illegal char ';'");
    fails("a: 1", "At 1:2: illegal char ':'");
    fails("a = 'b'", "At 1:5: illegal char '");
    fails("\u{feff}a = 1", "At 1:1: illegal char: the file begins with a byte order mark");
    fails("a = \"b", "At 1:7: literal not terminated: the string that begins at 1:5 has no closing quote");
    fails("\n\na = \"b\nc\"", "At 3:7: literal not terminated");
    fails("a = \"${b\"\n", "At 2:1: literal not terminated: the string that begins at 1:5 has no brace");
    fails("a = \"\\q\"", "At 1:6: illegal char escape");
    fails("a = \"\\u12\"", "At 1:6: illegal char escape");
    fails("a = \"\\ud800\"", "At 1:6: illegal char escape");
    fails("a = \"\\400\"", "At 1:6: illegal char escape");
    fails("a = \"\\xff\"", "At 1:5: the escapes of the string are not valid UTF-8");
    fails("a = <<EOF\nb", "At 2:2: heredoc not terminated: no line after 1:5 is EOF alone");
    fails("a = <<\nb", "At 1:5: a heredoc begins with");
    fails("/* a", "At 1:1: comment not terminated");
    fails("a = upper(\"x\")", "At 1:5: Unknown token: 1:5 IDENT upper");
    fails("a = null", "At 1:5: Unknown token: 1:5 IDENT null");
    fails("a = ", "At 1:5: Unknown token: 1:5 EOF");
    fails("a {\n b = 1", "At 2:7: object expected closing RBRACE got: EOF: the block that begins at 1:3");
    fails("}", "At 1:1: expected: IDENT | STRING got: RBRACE");
    fails("a = 1,, b = 2", "At 1:7: expected: IDENT | STRING got: COMMA");
    fails("a \"b\" = { c = 1 }", "At 1:7: nested object expected: LBRACE got: ASSIGN");
    fails("a 5", "At 1:3: key 'a' expected start of object ('{') or assignment ('=')");
    fails("a", "At 1:2: key 'a' expected start of object");
    fails("a = [1 2]", "At 1:8: error parsing list, expected comma or list end, got: NUMBER 2");
    fails("a = [1,,2]", "At 1:8: Unknown token: 1:8 COMMA");
    fails("a = 10s", "At 1:5: illegal number 10s");
    fails("a = 99999999999999999999", "At 1:5: illegal number");
    fails("\u{e9} = \u{20ac}", "At 1:5: illegal char '\u{20ac}'");
    let error = hcl1::parse(b"a = 1\nb = \"\xff\"", Syntax::Hcl).unwrap_err();
    assert_eq!(error.to_string(), "At 2:6: illegal UTF-8 encoding");
}

#[test]
fn json_is_the_same_structure() {
    let text = r#" {"a": "\u00e9\ud83d\ude00\/", "b": [1, -2.5e3, true, null], "c": {"d": {}}, "e": []} "#;
    assert_eq!(render(&json(text).unwrap()), "a=\"\u{e9}\u{1f600}/\" b=[1 -2.5e3 true null] c={d={}} e=[]");
    assert_eq!(render(&json(" \n").unwrap()), "");
    for (text, expected) in [
        ("[]", "At 1:1: an object is expected here, found '['"),
        ("{\"a\": 1,}", "At 1:9: a key in double quotes is expected here, found '}'"),
        ("{\"a\" 1}", "At 1:6: a colon must follow the key, found '1'"),
        ("{\n\"a\": x}", "At 2:6: unknown word x"),
        (
            "{\"a\": 1",
            "At 1:8: a comma or a brace is expected here; the object begins at 1:1, found the end of the file",
        ),
        ("{\"a\": [1 2]}", "At 1:10: a comma or a bracket is expected here"),
        ("{} {}", "At 1:4: nothing may follow the object"),
        ("{\"a\": 010}", "At 1:7: illegal number 010"),
        ("{\"a\": 0x10}", "At 1:7: illegal number 0x10"),
        ("{\"a\": \"\t\"}", "At 1:8: illegal char '\\t' in a string"),
        ("{\"a\": \"b\n\"}", "At 1:9: literal not terminated"),
        ("{\"a\": \"\\ud83d\\u0041\"}", "At 1:8: illegal char escape"),
        ("{\"a\": \"\\ud83d\"}", "At 1:8: illegal char escape"),
        ("{\"a\": 'b'}", "At 1:7: a value is expected here"),
        ("\u{feff}{}", "At 1:1: the file begins with a byte order mark"),
    ] {
        let error = json(text).map(|body| render(&body)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn the_notation_is_known_by_the_name_and_by_the_text() {
    assert_eq!(Syntax::of("a.json", b"a = 1"), Syntax::Json);
    assert_eq!(Syntax::of("a", b" \r\n{}"), Syntax::Json);
    assert_eq!(Syntax::of("a.hcl", b"{}"), Syntax::Json);
    assert_eq!(Syntax::of("a.hcl", b"a {}"), Syntax::Hcl);
    assert_eq!(Syntax::of("a", b""), Syntax::Hcl);
}

#[test]
fn positions_are_of_keys_and_values() {
    let body = hcl("a = 1\n  b \"\u{e9}\" {\n\tc = [2]\n}").unwrap();
    let b = &body.items[1];
    let Kind::Body(labels) = &b.value.kind else { panic!("{b:?}") };
    let Kind::Body(inner) = &labels.items[0].value.kind else { panic!("{labels:?}") };
    let c = &inner.items[0];
    let places =
        [b.at, labels.items[0].at, labels.items[0].value.at, c.at, c.value.at].map(|at| at.to_string());
    assert_eq!(places, ["2:3", "2:5", "2:9", "3:2", "3:6"]);
}

#[test]
fn nesting_has_a_limit() {
    let nested =
        |depth: usize, open: &str, close: &str| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let block = |depth: usize| format!("{}{}", "a {".repeat(depth), "}".repeat(depth));
    assert!(hcl(&block(DEPTH_MAX)).is_ok());
    assert!(hcl(&block(DEPTH_MAX + 1)).unwrap_err().text.contains("nested more than 64 deep"));
    assert!(hcl(&format!("a = {}", nested(DEPTH_MAX, "[", "]"))).is_ok());
    for text in [
        block(100_000),
        format!("a = {}", nested(100_000, "[", "]")),
        format!("a = {}", nested(100_000, "{a=", "}")),
        format!("a {} {{}}", "b ".repeat(1_000)),
        "a {".repeat(100_000),
        format!("a = {}", "[".repeat(100_000)),
    ] {
        assert!(hcl(&text).unwrap_err().text.contains("nested more than 64 deep"), "{}", &text[..20]);
    }
    for text in [nested(100_000, "{\"a\":", "}"), format!("{{\"a\":{}", "[".repeat(100_000))] {
        assert!(json(&text).unwrap_err().text.contains("nested more than 64 deep"), "{}", &text[..20]);
    }
}

#[test]
fn numbers_are_read_once() {
    let error = hcl(&format!("a = {}1", "1e+".repeat(300_000))).unwrap_err();
    assert!(error.text.contains("illegal number"), "{}", &error.text[..40]);
}

#[test]
fn sizes_have_limits() {
    assert!(hcl(&" ".repeat(BYTES_MAX)).is_ok());
    assert!(hcl(&" ".repeat(BYTES_MAX + 1)).unwrap_err().text.contains("larger than 1048576 bytes"));
    assert!(hcl(&"a=1 ".repeat(VALUES_MAX / 2)).is_ok());
    let error = hcl(&"a=1 ".repeat(VALUES_MAX)).unwrap_err();
    assert!(error.text.contains("more than 65536 keys and values"), "{error}");
    let error = json(&format!("{{\"a\":[{}1]}}", "1,".repeat(VALUES_MAX))).unwrap_err();
    assert!(error.text.contains("more than 65536 keys and values"), "{error}");
}
