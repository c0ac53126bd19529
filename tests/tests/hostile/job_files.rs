//! Attacks by job files, which the server parses at `/v1/jobs/parse`.

use serde_json::json;

use crate::attack::{Attack, Outcome, Size, at_once, ensure, expect};
use crate::scene::Scene;
use crate::socket::{Answer, ask};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "huge-exponents",
        does: "`priority = 1.5e-9223372036854775808`, and other exponents and digits without bounds, eight at once",
        expected: "400",
        size: Size::Quick,
        run: |scene| Box::pin(huge_exponents(scene)),
    },
    Attack {
        name: "yaml-aliases",
        does: "YAML whose aliases double 60 times (billion laughs), eight at once",
        expected: "400",
        size: Size::Full,
        run: |scene| Box::pin(yaml_aliases(scene)),
    },
    Attack {
        name: "quadratic-expressions",
        does: "`regex_replace` and others over texts of 100,000 bytes, nested, eight at once",
        expected: "a job, or 400",
        size: Size::Full,
        run: |scene| Box::pin(quadratic_expressions(scene)),
    },
    Attack {
        name: "doubling-locals",
        does: "60 locals, each twice the one before it: texts, lists and objects",
        expected: "400",
        size: Size::Full,
        run: |scene| Box::pin(doubling_locals(scene)),
    },
    Attack {
        name: "endless-ranges",
        does: "`range(1000000000)`, three nested `for`, `setproduct` of eight lists, `format(\"%2000000000d\")`",
        expected: "400",
        size: Size::Full,
        run: |scene| Box::pin(endless_ranges(scene)),
    },
    Attack {
        name: "deep-job-files",
        does: "parentheses, lists, blocks, templates and operators nested 100,000 deep",
        expected: "400",
        size: Size::Full,
        run: |scene| Box::pin(deep_job_files(scene)),
    },
    Attack {
        name: "long-job-files",
        does: "job files of 7 MiB: attributes, blocks, a comment without end, one text, one identifier",
        expected: "a job, or 400",
        size: Size::Full,
        run: |scene| Box::pin(long_job_files(scene)),
    },
    Attack {
        name: "files-of-the-server",
        does: "`file(\"/etc/passwd\")`, `fileset`, `templatefile`, and paths out of the directory",
        expected: "400; nothing of this machine",
        size: Size::Quick,
        run: |scene| Box::pin(files_of_the_server(scene)),
    },
    Attack {
        name: "job-file-garbage",
        does: "job files that are no text, only a byte order mark, half a block, a text without end",
        expected: "400",
        size: Size::Full,
        run: |scene| Box::pin(garbage(scene)),
    },
];

/// A job file with these locals, and a job whose metadata uses `value`.
fn job_file(locals: &str, value: &str) -> String {
    format!(
        "locals {{\n{locals}\n}}\njob \"parsed\" {{\n  meta {{\n    a = {value}\n  }}\n  group \"g\" {{\n    \
         task \"t\" {{\n      driver = \"mock_driver\"\n    }}\n  }}\n}}\n"
    )
}

/// Has a job file parsed by `count` clients at once.
async fn parse(scene: &Scene, count: usize, source: &str) -> Vec<Answer> {
    let host = scene.host();
    let body = json!({ "JobHCL": source, "Canonicalize": true }).to_string();
    at_once(count, |_| {
        let (host, body) = (host.clone(), body.clone());
        async move { ask(&host, "PUT", "/v1/jobs/parse", body.as_bytes()).await }
    })
    .await
}

async fn expect_parsed(
    scene: &Scene,
    count: usize,
    what: &str,
    source: &str,
    statuses: &[u16],
) -> Result<(), String> {
    for answer in parse(scene, count, source).await {
        expect(what, &answer, statuses)?;
    }
    Ok(())
}

async fn huge_exponents(scene: &Scene) -> Outcome {
    let digits = "9".repeat(100_000);
    for number in [
        "1.5e-9223372036854775808",
        "1.5e9223372036854775807",
        "1e99999999999999999999",
        "1e1000000000",
        "1e-1000000000",
        "0.1e-2147483649",
        &digits[..],
    ] {
        let source = format!("job \"a\" {{\n  priority = {number}\n}}\n");
        let what: String = format!("priority = {number}").chars().take(50).collect();
        expect_parsed(scene, 8, &what, &source, &[400]).await?;
    }
    Ok(())
}

async fn yaml_aliases(scene: &Scene) -> Outcome {
    let mut yaml = "a0: &a0 [x, x]\\n".to_owned();
    for level in 1..=60 {
        let before = level - 1;
        yaml.push_str(&format!("a{level}: &a{level} [*a{before}, *a{before}]\\n"));
    }
    let source = job_file("", &format!("jsonencode(yamldecode(\"{yaml}\"))"));
    expect_parsed(scene, 8, "aliases that double", &source, &[400]).await?;
    Ok(())
}

async fn quadratic_expressions(scene: &Scene) -> Outcome {
    let text = format!("  text = \"{}\"", "a".repeat(100_000));
    for value in [
        "regex_replace(local.text, \"(a|aa)*b\", \"c\")",
        "regex_replace(local.text, \"a*\", \"$0$0$0$0\")",
        "regex_replace(regex_replace(local.text, \"a\", \"aaaaaaaaaa\"), \"a*?b\", \"c\")",
        "length(regexall(\"(.*)(.*)(.*)x\", local.text))",
        "join(\",\", regexall(\"a{1,1000}b\", local.text))",
        "replace(replace(local.text, \"a\", \"aaaaaaaaaa\"), \"a\", \"aaaaaaaaaa\")",
        "join(\"\", split(\"a\", local.text))",
        "indent(1000000, local.text)",
    ] {
        expect_parsed(scene, 8, value, &job_file(&text, value), &[200, 400, 503]).await?;
    }
    Ok(())
}

async fn doubling_locals(scene: &Scene) -> Outcome {
    type Doubled = fn(usize) -> String;
    let kinds: [(&str, Doubled); 3] = [
        ("\"xxxxxxxxxxxxxxxx\"", |before| format!("\"${{local.a{before}}}${{local.a{before}}}\"")),
        ("[1, 2]", |before| format!("[local.a{before}, local.a{before}]")),
        ("{ a = 1 }", |before| format!("{{ a = local.a{before}, b = local.a{before} }}")),
    ];
    for (first, doubled) in kinds {
        let mut locals = format!("  a0 = {first}\n");
        for level in 1..=60 {
            locals.push_str(&format!("  a{level} = {}\n", doubled(level - 1)));
        }
        let source = job_file(&locals, "jsonencode(local.a60)");
        expect_parsed(scene, 4, "locals that double", &source, &[400]).await?;
    }
    Ok(())
}

async fn endless_ranges(scene: &Scene) -> Outcome {
    let list =
        format!("  ten = [{}]", (0..10).map(|number| number.to_string()).collect::<Vec<_>>().join(", "));
    let thousand = "range(1000)";
    let nested = format!(
        "length([for a in {thousand} : [for b in {thousand} : [for c in {thousand} : \"${{a}}${{b}}${{c}}\"]]])"
    );
    let product = format!("length(setproduct({}))", ["local.ten"; 8].join(", "));
    for value in [
        "length(range(1000000000))",
        &nested[..],
        &product[..],
        "format(\"%2000000000d\", 1)",
        "format(\"%.2000000000f\", 1)",
    ] {
        expect_parsed(scene, 4, value, &job_file(&list, value), &[400]).await?;
    }
    Ok(())
}

async fn deep_job_files(scene: &Scene) -> Outcome {
    const DEPTH: usize = 100_000;
    let nest = |open: &str, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(DEPTH), close.repeat(DEPTH))
    };
    for (what, value) in [
        ("parentheses", nest("(", "1", ")")),
        ("lists", nest("[", "1", "]")),
        ("open lists", "[".repeat(DEPTH)),
        ("objects", nest("{ a = ", "1", " }")),
        ("templates", nest("\"${", "1", "}\"")),
        ("negations", format!("{}true", "!".repeat(DEPTH))),
        ("conditions", nest("true ? 1 : (", "1", ")")),
        ("calls", nest("upper(", "\"a\"", ")")),
        ("indexes", format!("local.a{}", "[0]".repeat(DEPTH))),
    ] {
        expect_parsed(scene, 2, what, &job_file("", &value), &[400]).await?;
    }
    let blocks = format!("job \"a\" {{\n{}{}\n}}\n", "group \"g\" {\n".repeat(DEPTH), "}\n".repeat(DEPTH));
    expect_parsed(scene, 2, "blocks", &blocks, &[400]).await?;
    Ok(())
}

async fn long_job_files(scene: &Scene) -> Outcome {
    const BYTES: usize = 7 << 20;
    let repeated = |part: &str| part.repeat(BYTES / 2 / part.len());
    for (what, source) in [
        ("attributes", job_file(&repeated("  a = 1\n"), "1")),
        ("blocks", format!("job \"a\" {{\n{}}}\n", repeated("group \"g\" {}\n"))),
        ("a comment without end", format!("/*{}", repeated("* /"))),
        ("a text", job_file(&format!("  a = \"{}\"", repeated("x")), "1")),
        ("an identifier", job_file(&format!("  {} = 1", repeated("x")), "1")),
        ("line breaks", repeated("\n")),
        ("a text of escapes", job_file(&format!("  a = \"{}\"", repeated("$${")), "1")),
        ("a text in lines without end", format!("job \"a\" {{\n  a = <<EOF\n{}", repeated("EO\n"))),
        ("operators", job_file("", &format!("1{}", repeated(" + 1")))),
    ] {
        expect_parsed(scene, 2, what, &source, &[200, 400, 413, 503]).await?;
    }
    Ok(())
}

async fn files_of_the_server(scene: &Scene) -> Outcome {
    for value in [
        "file(\"/etc/passwd\")",
        "filebase64(\"/etc/passwd\")",
        "file(\"../../../../../../etc/passwd\")",
        "templatefile(\"/etc/passwd\", {})",
        "join(\",\", fileset(\"/etc\", \"*\"))",
        "filesha256(\"/etc/passwd\")",
        "fileexists(\"/etc/passwd\")",
    ] {
        for answer in parse(scene, 1, &job_file("", value)).await {
            expect(value, &answer, &[400])?;
            ensure(!answer.text().contains("root:"), || format!("{value} shows a file of this machine"))?;
        }
    }
    Ok(())
}

async fn garbage(scene: &Scene) -> Outcome {
    for source in [
        "\u{feff}",
        "\u{0}\u{1}\u{2}",
        "job",
        "job \"a\" {",
        "job \"a",
        "}}}}",
        "\u{202e}\u{200b}\u{1f4a5}",
        "job \"a\" { meta { a = \"${\" } }",
        "job \"a\" \"b\" \"c\" {}",
        "{\"job\": [[[[]]]]}",
        "%PDF-1.7",
    ] {
        expect_parsed(scene, 1, source, source, &[400]).await?;
    }
    let answer = scene.ask("PUT", "/v1/jobs/parse", br#"{"JobHCL": ["job"], "Canonicalize": "yes"}"#).await;
    expect("a job file that is a list", &answer, &[400])?;
    Ok(())
}
