//! Errors in a job file: as text, with the source line and a marker below it, and as JSON.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use jobspec::{Diagnostic, Error};
use serde_json::{Value, json};

/// The diagnostics as text, each with its source line.
pub(crate) fn render(error: &Error, colours: bool) -> String {
    let renderer = if colours { Renderer::styled() } else { Renderer::plain() };
    let all: Vec<String> = error.diagnostics.iter().map(|one| diagnostic(one, &renderer)).collect();
    all.join("\n\n")
}

fn diagnostic(diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let Diagnostic { file, place, summary, detail } = diagnostic;
    let title = Level::ERROR.primary_title(summary.as_str());
    let Some(place) = place else {
        return renderer.render(&[title.element(Level::NOTE.message(format!("{file}: {detail}")))]);
    };
    let mark = AnnotationKind::Primary.span(place.marked.clone()).label(detail.as_str());
    let snippet =
        Snippet::source(place.excerpt.as_str()).line_start(place.line).path(file.as_str()).annotation(mark);
    renderer.render(&[title.element(snippet)])
}

/// All diagnostics as a JSON object.
pub(crate) fn as_json(error: &Error) -> Value {
    let diagnostic = |one: &Diagnostic| {
        let range = one.place.as_ref().map(|place| {
            json!({
                "Start": { "Line": place.line, "Column": place.column },
                "End": { "Line": place.end_line, "Column": place.end_column },
                "Excerpt": place.excerpt,
            })
        });
        json!({ "Severity": "error", "Summary": one.summary, "Detail": one.detail, "File": one.file, "Range": range })
    };
    json!({ "Diagnostics": error.diagnostics.iter().map(diagnostic).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use jobspec::{Options, parse};

    use super::*;

    fn error(source: &str) -> Error {
        parse(source, &Options { file_name: "web.nomad.hcl".to_owned(), ..Options::default() }).unwrap_err()
    }

    #[test]
    fn a_diagnostic_shows_the_line() {
        let source = "job \"web\" {\n  group \"front\" {\n    cuont = 2\n  }\n}\n";
        insta::assert_snapshot!(render(&error(source), false), @r#"
    error: Unsupported argument
     --> web.nomad.hcl:3:5
      |
    3 |     cuont = 2
      |     ^^^^^ an argument named "cuont" is not expected here. Did you mean "count"?
    "#);
        insta::assert_snapshot!(render(&error("locals {}\n"), false), @r#"
    error: Missing job block
     |
     = note: web.nomad.hcl: a file has one job block: job "name" {
    "#);
        let json = as_json(&error(source));
        assert_eq!(json["Diagnostics"][0]["Range"]["Start"]["Line"], 3);
        assert_eq!(json["Diagnostics"][0]["Summary"], "Unsupported argument");
    }
}
