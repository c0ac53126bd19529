//! Every parameter of every request is treated as the table says: it is used, or listed as being without effect.

mod table;

use self::table::{IGNORED, ROWS, Row, Why};
use crate::routes;
use crate::testing::{ROOT, has_word};

const ROUTES: &str = "services/api/src/routes";
/// Parameters that every request may have: the region is compared, and the answer indented, before and after the handler.
const COMMON: [&str; 2] = ["region", "pretty"];
/// Parameters of lists in pages.
const PAGE: [&str; 3] = ["per_page", "next_token", "reverse"];
/// Parameters of reads.
const READ: [&str; 3] = ["index", "wait", "stale"];

impl Row {
    /// The files that handle the request.
    fn files(&self) -> impl Iterator<Item = String> {
        self.files.split_whitespace().map(|file| match file.contains('/') {
            true => file.to_owned(),
            false => format!("{ROUTES}/{file}.rs"),
        })
    }

    /// The query parameters that are used.
    fn query(&self) -> Vec<&'static str> {
        let expand = |word: &'static str| match word {
            "PAGE" => PAGE.to_vec(),
            "READ" => READ.to_vec(),
            name => vec![name],
        };
        self.query.split_whitespace().flat_map(expand).collect()
    }

    /// Everything that a request may say, with or without effect.
    fn known(&self) -> Vec<&'static str> {
        let ignored = IGNORED.iter().filter(|(request, ..)| *request == self.request);
        let ignored = ignored.flat_map(|(_, names, _)| names.split_whitespace());
        self.query().into_iter().chain(self.body.split_whitespace()).chain(COMMON).chain(ignored).collect()
    }
}

/// What the code that reads a query parameter contains.
fn marks(name: &str) -> Vec<String> {
    let by_method: &[&str] = match name {
        "namespace" => &[".namespace()", "key(request)"],
        "filter" => &[".filter::<"],
        name if PAGE.contains(&name) => &[".page()"],
        name if READ.contains(&name) => &["api.read", "api.list", "api.select(", ".read_options()"],
        _ => &[],
    };
    by_method.iter().map(|mark| (*mark).to_owned()).chain([format!("\"{name}\"")]).collect()
}

/// The name that a member of a body has in the code: `EvalIDs` is `eval_ids`.
fn field(member: &str) -> String {
    let mut field = String::new();
    for letter in member.replace("IDs", "Ids").replace("ID", "Id").replace("HCL", "Hcl").chars() {
        if letter.is_ascii_uppercase() && !field.is_empty() {
            field.push('_');
        }
        field.push(letter.to_ascii_lowercase());
    }
    field
}

fn read(file: &str) -> String {
    std::fs::read_to_string(format!("{ROOT}/{file}")).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn every_request_has_a_row_and_uses_what_it_says() {
    let mut handled: Vec<String> = routes::handled().collect();
    let mut rows: Vec<&str> = ROWS.iter().map(|row| row.request).collect();
    handled.sort();
    rows.sort_unstable();
    assert_eq!(handled, rows, "which parameters does the request use, and which have no effect?");
    for row in ROWS {
        let texts: Vec<String> = row.files().map(|file| read(&file)).collect();
        for name in row.query() {
            let is_read = marks(name).iter().any(|mark| texts.iter().any(|text| text.contains(mark)));
            assert!(is_read, "{} does not read {name}", row.request);
        }
        for member in row.body.split_whitespace() {
            let is_read = row.files().any(|file| has_word(&file, &field(member)));
            assert!(is_read, "{} does not read {member}", row.request);
        }
    }
    for (request, names, why) in IGNORED {
        assert!(rows.contains(request), "{request} is not handled");
        if let Why::Missing(feature) = why {
            assert!(
                !feature.is_built(),
                "{request}: the list says that {feature:?} is built, so {names} counts"
            );
        }
    }
}

#[test]
fn every_parameter_that_is_read_is_in_a_row() {
    let known: Vec<&str> = ROWS.iter().flat_map(Row::known).collect();
    for entry in std::fs::read_dir(format!("{ROOT}/{ROUTES}")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for call in [".text(\"", ".flag(\"", ".all(\"", "query.get(\""] {
            for name in text.split(call).skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(known.contains(&name), "{}: {name} is in no row", path.display());
            }
        }
    }
}

/// The names that the rules give after a request: the members of its body, and its query parameters.
fn documented(request: &str, text: &str) -> Vec<String> {
    let in_query = request.split_once('?').map_or("", |(_, query)| query);
    let named = in_query.split('&').filter_map(|pair| pair.split('=').next());
    let mut names: Vec<String> = named.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    for rest in text.split("uery").skip(1).filter_map(|rest| rest.strip_prefix([' ', ':'])) {
        names.extend(quoted_names(rest));
    }
    for rest in text.split("ody").skip(1) {
        // `body optional {`, with quotes between.
        if let Some((between, rest)) = rest.split_once('{')
            && between.len() <= "\n optional `".len()
        {
            names.extend(members(rest));
        }
    }
    names
}

/// The names in backquotes up to the end of a clause, without those in parentheses.
fn quoted_names(text: &str) -> Vec<String> {
    let (mut depth, mut clause) = (0, String::new());
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            '.' | ';' if depth == 0 => break,
            letter if depth == 0 => clause.push(letter),
            _ => {}
        }
    }
    let is_name = |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    clause.split('`').skip(1).step_by(2).filter(is_name).map(str::to_owned).collect()
}

/// The names of the members of an object, from behind its opening brace on, without those in parentheses.
fn members(text: &str) -> Vec<String> {
    let (mut depth, mut outer) = (1, String::new());
    for letter in text.chars() {
        match letter {
            '{' | '(' => depth += 1,
            '}' | ')' => depth -= 1,
            letter if depth == 1 => outer.push(letter),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    let words = outer.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase())).map(str::to_owned).collect()
}

#[test]
fn every_documented_parameter_is_in_a_row() {
    let rules = read("docs/rules/http-api.md");
    let mut count = 0;
    for part in rules.split("**`").skip(1) {
        let Some((request, text)) = part.split_once("`**") else { continue };
        let text = text.split("\n\n").next().unwrap_or_default();
        let Some((methods, path)) = request.split_once(char::is_whitespace) else { continue };
        let Some((route, _)) = routes::find(path.split('?').next().unwrap_or_default()) else { continue };
        for row in ROWS {
            let (method, path) = row.request.split_once(' ').unwrap();
            let is_method = |one| one == method || (one == "POST" && method == "PUT");
            if path != route.path || !(method == "ANY" || methods.split('|').any(is_method)) {
                continue;
            }
            let known = row.known();
            for name in documented(request, text) {
                let is_member = name.starts_with(|c: char| c.is_ascii_uppercase());
                let is_known = known.contains(&name.as_str()) || (is_member && method == "GET");
                assert!(is_known, "{}: {name} is neither used nor listed", row.request);
                count += 1;
            }
        }
    }
    assert!(count > 100, "{count}");
}

/// The page with everything that has no effect.
fn page() -> String {
    let mut page = "# Parameters of requests

What a request to the HTTP API may contain without effect. All other parameters and members of bodies that
[the rules](../rules/http-api.md) name are used, or the request is refused. This page is generated by
`UPDATE_DOCS=1 cargo test --package api --lib parameters`.

| request | parameters | no effect |
|---|---|---|
"
    .to_owned();
    for (request, names, why) in IGNORED {
        let names: Vec<String> = names.split_whitespace().map(|name| format!("`{name}`")).collect();
        let why = match why {
            Why::Missing(feature) => feature.absence(),
            Why::Because(why) => (*why).to_owned(),
        };
        page.push_str(&format!("| `{request}` | {} | {why} |\n", names.join(", ")));
    }
    page
}

#[test]
fn the_documented_list_of_parameters_is_that_of_the_table() {
    let file = "docs/operations/request-parameters.md";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(format!("{ROOT}/{file}"), page()).unwrap();
    }
    let stored = std::fs::read_to_string(format!("{ROOT}/{file}")).unwrap_or_default();
    assert!(stored == page(), "{file} is stale: UPDATE_DOCS=1 cargo test --package api --lib parameters");
}
