//! Templates of tasks, with all their functions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use go_template::limits::OUTPUT_BYTES_MAX;
use go_template::{Answer, Data, Service, ServiceName, Template};

use crate::seeds;
use crate::target::{Repeated, Target};

/// How long a rendering may take: less than an input may.
const TIME_MAX: Duration = Duration::from_millis(300);

/// Templates of tasks.
pub static TASK_TEMPLATE: Target = Target {
    name: "task_template",
    run: task_template,
    seeds: || {
        let templates = [
            "{{ range nomadService \"db\" }}{{ .Address }}:{{ .Port }} {{ .Tags | join \",\" }}\n{{ end }}",
            "{{ with nomadService 1 (env \"NOMAD_ALLOC_ID\") \"db\" }}{{ (index . 0).ID }}{{ else }}none{{ end }}",
            "{{ range $tag, $all := nomadService \"db\" | byTag }}{{ $tag }}={{ len $all }}{{ end }}",
            "{{ with parseJSON (file \"a\") }}{{ .b | toYAML | indent 2 }}{{ . | toTOML }}{{ end }}",
            "{{ \"a,b\" | split \",\" | join \"-\" | replaceAll \"-\" \"+\" | toUpper | base64Encode }}",
            "{{ \"foo\" | regexReplaceAll \"(o+)\" \"${1}x\" }}{{ regexMatch \"^f\" \"foo\" }}",
            "{{ $x := 1 }}{{ range loop 1 9 }}{{ $x = multiply $x . }}{{ end }}{{ $x }}{{ divide 0 $x }}",
            "{{ sprig_dict \"a\" (sprig_list 1 2) | toJSONPretty }}{{ \"a\" | sprig_repeat 9 | sprig_trunc -2 }}",
            "{{ define \"t\" }}{{ . | sha256Hex }}{{ end }}{{ template \"t\" \"x\" }}{{ timestamp \"2006-01-02\" }}",
            "{{ printf \"%-5s|%05d\" \"a\" 7 }}{{ slice \"abc\" 1 2 }}{{ key \"a\" }}",
        ];
        seeds::texts(templates)
    },
    words: &[
        "{{ ",
        " }}",
        "{{- ",
        " -}}",
        "range ",
        "if ",
        "else",
        "end",
        "with ",
        "define \"t\"",
        "template \"t\" .",
        "nomadService ",
        "nomadServices",
        "\"db\"",
        "$x := ",
        "$x = ",
        "$x",
        "|",
        "(",
        ")",
        "split \",\" ",
        "join \",\" ",
        "parseJSON ",
        "toJSON ",
        "toYAML ",
        "toTOML ",
        "regexReplaceAll ",
        "printf ",
        "\"%[1]s%*d\"",
        "sprig_list ",
        "sprig_dict ",
        "sprig_repeat ",
        "indent ",
        "loop ",
        "slice ",
        "index ",
        "timestamp ",
        "9223372036854775807",
        "-1",
        "1.5",
        "\"",
    ],
    repeated: &[
        Repeated { before: "", open: "{{ if true }}", middle: "", close: "{{ end }}", after: "" },
        Repeated { before: "", open: "{{ range loop 9 }}", middle: "a", close: "{{ end }}", after: "" },
        Repeated {
            before: "{{ $x := \"ab\" }}",
            open: "{{ $x = print $x $x }}",
            middle: "",
            close: "",
            after: "{{ $x }}",
        },
        Repeated {
            before: "{{ $x := 1 }}",
            open: "{{ $x = sprig_list $x $x }}",
            middle: "",
            close: "",
            after: "{{ toYAML $x }}",
        },
        Repeated {
            before: "{{ define \"t\" }}{{ template \"t\" }}{{ end }}{{ template \"t\" }}",
            open: "a",
            middle: "",
            close: "",
            after: "",
        },
        Repeated { before: "{{ ", open: "toUpper (", middle: "\"a\"", close: ")", after: " }}" },
    ],
    size_max: 64 << 10,
};

/// Data of a cluster with one service.
struct Scene(Instant);

impl Data for Scene {
    fn env(&self, name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    fn service(&self, name: &str) -> Answer<Vec<Service>> {
        if name == "unknown" {
            return Answer::Unknown;
        }
        let instance = |number: i64| Service {
            id: format!("id-{number}"),
            name: name.to_owned(),
            address: "10.0.0.1".to_owned(),
            port: number,
            tags: vec!["blue".to_owned(), format!("t{number}")],
            ..Service::default()
        };
        Answer::Known((1..4).map(instance).collect())
    }

    fn services(&self) -> Answer<Vec<ServiceName>> {
        Answer::Known(vec![ServiceName { name: "db".to_owned(), tags: vec!["blue".to_owned()] }])
    }

    fn file(&self, _: &str) -> Result<String, String> {
        Ok("{\"b\": [1, {\"c\": null}]}".to_owned())
    }

    fn now(&self) -> i64 {
        1_700_000_000
    }

    fn is_out_of_time(&self) -> bool {
        self.0.elapsed() > TIME_MAX
    }
}

#[allow(clippy::disallowed_methods, reason = "the time that a rendering takes is that of the test")]
fn task_template(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let template =
        Template { name: "t", text, left: "", right: "", error_on_missing_key: false, denied: &[] };
    // Whether the template is valid does not matter.
    if let Ok(rendered) = go_template::render(&template, Arc::new(Scene(Instant::now()))) {
        let length = u64::try_from(rendered.text.len()).expect("a length has at most 64 bits");
        assert!(length <= OUTPUT_BYTES_MAX, "a result is bounded");
    }
}
