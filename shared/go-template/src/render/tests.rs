//! Tests of templates: functions, syntax, missing data, hostile templates.

use super::*;
use crate::{Answer, Service, ServiceName};

/// Data of a task that reads one service.
#[derive(Default)]
struct Fake {
    is_late: bool,
}

fn instance(id: &str, port: i64, tags: &[&str]) -> Service {
    Service {
        id: id.to_owned(),
        name: "db".to_owned(),
        address: "10.0.0.1".to_owned(),
        port,
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ..Service::default()
    }
}

impl Data for Fake {
    fn env(&self, name: &str) -> Option<String> {
        (name == "HOME").then(|| "/root".to_owned())
    }

    fn service(&self, name: &str) -> Answer<Vec<Service>> {
        match name {
            "db" => Answer::Known(vec![instance("b", 2, &["blue"]), instance("a", 1, &["blue", "green"])]),
            "none" => Answer::Known(Vec::new()),
            "refused" => Answer::Refused("services cannot be read".to_owned()),
            _ => Answer::Unknown,
        }
    }

    fn services(&self) -> Answer<Vec<ServiceName>> {
        let names = ["web", "db"];
        let names = names.map(|name| ServiceName { name: name.to_owned(), tags: vec!["t".to_owned()] });
        Answer::Known(names.to_vec())
    }

    fn file(&self, path: &str) -> Result<String, String> {
        if path == "local/a" { Ok("content".to_owned()) } else { Err(format!("{path} does not exist")) }
    }

    fn now(&self) -> i64 {
        1_700_000_000
    }

    fn is_out_of_time(&self) -> bool {
        self.is_late
    }
}

fn template(text: &str) -> Template<'_> {
    Template { name: "t", text, left: "", right: "", error_on_missing_key: false, denied: &[] }
}

fn rendered(text: &str) -> Result<Rendered, Error> {
    render(&template(text), Arc::new(Fake::default()))
}

/// The text of a template that misses nothing.
fn text(template: &str) -> String {
    let Rendered { text, missing } = rendered(template).unwrap_or_else(|error| panic!("{template}: {error}"));
    assert!(missing.is_empty(), "{template}: {missing:?}");
    text
}

fn failure(template: &str) -> String {
    rendered(template).expect_err(template).to_string()
}

/// A-17.2: the functions of templates.
#[test]
fn functions_do_what_their_names_say() {
    for (template, expected) in [
        (r#"{{ env "HOME" }}|{{ env "NONE" }}|{{ envOrDefault "NONE" "x" }}"#, "/root||x"),
        (r#"{{ file "local/a" }}"#, "content"),
        (r#"{{ "a" | toUpper }}{{ "B" | toLower }} {{ "ab cd" | toTitle }}"#, "Ab Ab Cd"),
        (r#"{{ "hello" | base64Encode }} {{ "aGVsbG8=" | base64Decode }}"#, "aGVsbG8= hello"),
        (r#"{{ "a,b" | split "," | join "-" }}"#, "a-b"),
        (r#"{{ "a-b" | replaceAll "-" "+" }}"#, "a+b"),
        (r#"{{ if "abc" | contains "b" }}yes{{ end }}{{ if in "abc" "x" }}no{{ end }}"#, "yes"),
        (r#"{{ "foobar" | regexReplaceAll "o+" "0" }} {{ "foo" | regexMatch "^f" }}"#, "f0bar true"),
        (r#"{{ "user@x" | regexReplaceAll "(\\w+)@(\\w+)" "${2}:$1" }}"#, "x:user"),
        (r#"{{ 10 | subtract 3 }} {{ 10 | divide 3 }} {{ 1 | add 2 }} {{ 7 | modulo 4 }}"#, "7 3 3 3"),
        (r#"{{ 2 | multiply 3 }} {{ 2 | minimum 3 }} {{ 2 | maximum 3 }} {{ add 1.5 1 }}"#, "6 2 3 2.5"),
        (r#"{{ range loop 3 }}{{ . }}{{ end }} {{ range loop 5 7 }}{{ . }}{{ end }}"#, "012 56"),
        (r#"{{ with parseJSON "{\"a\": [1, true]}" }}{{ index .a 0 }} {{ index .a 1 }}{{ end }}"#, "1 true"),
        (r#"{{ parseInt "7" | add 1 }} {{ parseBool "t" }} {{ parseFloat "1.5" }}"#, "8 true 1.5"),
        (r#"{{ "<a>" | toJSON }} {{ "<a>" | toUnescapedJSON }}"#, "\"\\u003ca\\u003e\" \"<a>\""),
        (
            r#"{{ parseJSON "{\"b\": {\"c\": \"yes\"}, \"a\": [\"x\", 1]}" | toYAML }}"#,
            "a:\n  - x\n  - 1\nb:\n  c: \"yes\"",
        ),
        (r#"{{ parseJSON "[{\"a\": 1, \"b\": 2}]" | toYAML }}"#, "- a: 1\n  b: 2"),
        (r#"{{ parseJSON "{\"b\": {\"c\": 1}, \"a\": [1, 2]}" | toTOML }}"#, "a = [1, 2]\n[b]\nc = 1"),
        (r#"{{ "x" | sha256Hex | len }} {{ "" | md5sum }}"#, "64 d41d8cd98f00b204e9800998ecf8427e"),
        ("{{ timestamp }} {{ timestamp \"unix\" }}", "2023-11-14T22:13:20Z 1700000000"),
        ("{{ timestamp \"2006-01-02 15:04\" }}", "2023-11-14 22:13"),
        ("{{ \"a\\n\\nb\" | indent 2 }}", "  a\n\n  b"),
        (r#"{{ " a " | trimSpace }}{{ trimPrefix "a" "ab" }}{{ trimSuffix "b" "ab" }}"#, "aba"),
        (r#"{{ with splitToMap ";" "=" "a=1;b=2" }}{{ .a }}{{ .b }}{{ end }}"#, "12"),
        (
            r#"{{ sprig_list 3 1 | sprig_first }} {{ sprig_dict "k" "v" | sprig_keys | sprig_join "," }}"#,
            "3 k",
        ),
        (
            r#"{{ "" | sprig_default "d" }} {{ sprig_ternary "a" "b" true }} {{ "abc" | sprig_trunc 2 }}"#,
            "d a ab",
        ),
        (r#"{{ "a" | sprig_repeat 3 }} {{ sprig_quote "a" }} {{ sprig_sub 5 3 }}"#, "aaa \"a\" 2"),
        (r#"{{ printf "%s=%d" "a" 1 }} {{ print "a" 1 }} {{ "<" | html }}"#, "a=1 a1 &lt;"),
    ] {
        assert_eq!(text(template), expected, "{template}");
    }
    let keyed = "88cd2108b5347d973cf39cdf9053d7dd42704876d8c9a9bd8e2d168259d3ddf7";
    assert_eq!(text(r#"{{ hmacSHA256Hex "test" "test" }}"#), keyed);
}

/// A-17.2: `nomadService` and `nomadServices`.
#[test]
fn services_are_listed_by_name() {
    let all = "{{ range nomadService \"db\" }}{{ .Address }}:{{ .Port }} {{ .Tags | join \",\" }};{{ end }}";
    assert_eq!(text(all), "10.0.0.1:1 blue,green;10.0.0.1:2 blue;");
    assert_eq!(text("{{ range nomadService \"green.db\" }}{{ .ID }}{{ end }}"), "a");
    let chosen = "{{ range nomadService 1 \"x\" \"db\" }}{{ .ID }}{{ end }}";
    assert_eq!(text(chosen).len(), 1);
    assert_eq!(text(chosen), text(chosen), "the same hash chooses the same instance");
    assert_eq!(text("{{ range nomadService 9 \"x\" \"db\" }}{{ .Name }}{{ end }}"), "dbdb");
    assert_eq!(text("{{ range nomadServices }}{{ .Name }}{{ .Tags }} {{ end }}"), "db[t] web[t] ");
    assert_eq!(text("{{ with nomadService \"none\" }}some{{ else }}none{{ end }}"), "none");
    let tags = "{{ range $tag, $all := nomadService \"db\" | byTag }}{{ $tag }}={{ len $all }} {{ end }}";
    assert_eq!(text(tags), "blue=2 green=1 ");
}

/// A-17.4: what is missing has a name.
#[test]
fn missing_data_is_named_and_no_error() {
    let missing = |text| rendered(text).unwrap().missing.into_iter().collect::<Vec<_>>();
    assert_eq!(
        missing("{{ range nomadService \"y\" }}{{ end }}{{ nomadService \"x\" }}"),
        ["nomad.service(x)", "nomad.service(y)"]
    );
    // What fails without the data does not hide that it is missing.
    assert_eq!(missing("{{ (index (nomadService \"x\") 0).Port }}"), ["nomad.service(x)"]);
    assert!(failure("{{ nomadService \"refused\" }}").contains("nomadService: services cannot be read"));
}

#[test]
fn the_syntax_is_that_of_go() {
    for (template, expected) in [
        ("a {{- /* comment */ -}} b", "ab"),
        ("{{ $x := 1 }}{{ if eq $x 1 }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
        ("{{ define \"t1\" }}<{{ . }}>{{ end }}{{ template \"t1\" 7 }}", "<7>"),
        ("{{ range $i, $x := loop 3 }}{{ if eq $i 1 }}{{ continue }}{{ end }}{{ $x }}{{ end }}", "02"),
        ("{{ with \"\" }}a{{ else }}b{{ end }}", "b"),
        ("  \n", "  \n"),
        ("", ""),
    ] {
        assert_eq!(text(template), expected, "{template}");
    }
    let other = Template { left: "[[", right: "]]", ..template("{{ [[ env \"HOME\" ]] }}") };
    assert_eq!(render(&other, Arc::new(Fake::default())).unwrap().text, "{{ /root }}");
}

#[test]
fn a_missing_key_is_an_error_on_request() {
    let keys = "{{ with parseJSON \"{\\\"a\\\": 1}\" }}{{ .b }}{{ end }}";
    assert_eq!(text(keys), "<no value>");
    let strict = Template { error_on_missing_key: true, ..template(keys) };
    let error = render(&strict, Arc::new(Fake::default())).unwrap_err();
    assert!(matches!(&error, Error::Failed(text) if text.contains("no entry for key: b")), "{error}");
}

#[test]
fn errors_say_what_is_wrong() {
    assert!(matches!(rendered("{{ env"), Err(Error::Invalid(_))));
    assert!(
        matches!(rendered("{{ nothing 1 }}"), Err(Error::Invalid(text)) if text.contains("\"nothing\" not defined"))
    );
    // Also where it is not reached.
    assert!(matches!(rendered("{{ if false }}{{ nothing }}{{ end }}"), Err(Error::Invalid(_))));
    for (template, part) in [
        ("{{ key \"a\" }}", "key: it needs Consul"),
        ("{{ with secret \"a\" }}{{ end }}", "secret: it needs Vault"),
        ("{{ nomadVar \"a\" }}", "nomadVar: there are no variables"),
        ("{{ file \"b\" }}", "file: b does not exist"),
        ("{{ plugin \"x\" }}", "plugin: "),
        ("{{ divide 0 1 }}", "divide: the result is not a number"),
        ("{{ parseJSON \"{\" }}", "parseJSON: the text is not JSON"),
        ("{{ toUpper 1 2 }}", "toUpper: it takes 1 arguments, not 2"),
        ("{{ regexMatch \"(\" \"a\" }}", "regexMatch: the regular expression is not valid"),
        ("{{ sprig_fail \"no\" }}", "sprig_fail: no"),
        ("{{ nomadService \"a@b\" }}", "names another region"),
    ] {
        let error = failure(template);
        assert!(error.starts_with("template \"t\": ") && error.contains(part), "{template}: {error}");
    }
}

#[test]
fn functions_that_the_operator_denies_are_refused() {
    let denied = ["file".to_owned()];
    let denying = Template { denied: &denied, ..template("{{ file \"local/a\" }}") };
    let error = render(&denying, Arc::new(Fake::default())).unwrap_err().to_string();
    assert!(error.ends_with("file: the operator of this node denies it"), "{error}");
}

/// Hostile templates end with an error that names the limit.
#[test]
fn hostile_templates_end() {
    let limit = |text: &str| match rendered(text) {
        Err(Error::Limit(limit)) => limit,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(
        limit("{{ define \"x\" }}{{ template \"x\" }}{{ end }}{{ template \"x\" }}"),
        Limit::Recursion
    );
    assert_eq!(limit("{{ range 10000000 }}{{ end }}"), Limit::Iterations);
    let wide = "{{ range 100000 }}{{ printf \"%60000d\" 1 }}{{ end }}";
    assert_eq!(limit(wide), Limit::Output);
    let growing = "{{ $x := \"aaaaaaaa\" }}{{ range 60 }}{{ $x = print $x $x }}{{ end }}";
    assert!(matches!(rendered(growing), Err(Error::Limit(_) | Error::Failed(_))));
    assert_eq!(limit("{{ $x := 1 }}{{ range 1000 }}{{ $x = sprig_list $x }}{{ end }}"), Limit::Depth);
    assert_eq!(limit("{{ $x := 1 }}{{ range 60 }}{{ $x = sprig_list $x $x }}{{ end }}"), Limit::Value);
    let long = "a".repeat(crate::limits::SOURCE_BYTES_MAX + 1);
    assert_eq!(limit(&long), Limit::Source);
    for refused in [
        "{{ printf \"%9999999d\" 1 }}",
        "{{ printf \"%*d\" 9999999 1 }}",
        "{{ \"a\" | sprig_repeat 99999999 }}",
    ] {
        assert!(matches!(rendered(refused), Err(Error::Failed(_))), "{refused}");
    }
}

/// Templates that call each other twice would take more steps than there are seconds.
#[test]
fn steps_are_counted_where_nothing_is_written() {
    let mut doubling = "{{ define \"x0\" }}{{ end }}".to_owned();
    for level in 1..60 {
        let below = level - 1;
        doubling += &format!(
            "{{{{ define \"x{level}\" }}}}{{{{ template \"x{below}\" }}}}{{{{ template \"x{below}\" }}}}{{{{ end }}}}"
        );
    }
    doubling += "{{ template \"x59\" }}";
    assert_eq!(rendered(&doubling), Err(Error::Limit(Limit::Steps)));
    let late = render(&template("a{{ 1 }}"), Arc::new(Fake { is_late: true }));
    assert_eq!(late, Err(Error::Limit(Limit::Time)));
}
