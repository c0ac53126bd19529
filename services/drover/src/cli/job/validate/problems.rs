//! Flattens the validation errors of a server into one line per error, prefixed with its location in the job. Servers nest
//! their errors in one text (http-api §9.5): a heading with the number of errors, then each error after `* `, at any depth.
//! Pure.

/// The text after the number of errors.
const HEADS: [&str; 2] = [" error occurred:", " errors occurred:"];
const BULLET: &str = "\n\t* ";
const END: &str = "\n\n";
/// Maximum nesting that is parsed. No job is nested so deeply; text beyond it is left unchanged.
const DEPTH_MAX: usize = 16;

/// The errors in a text that may be nested, as `group "web" > task "app": error`.
pub(crate) fn flat(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    problem(&mut rest, &mut Vec::new(), &mut found);
    found
}

fn problem(rest: &mut &str, path: &mut Vec<String>, found: &mut Vec<String>) {
    let end = [BULLET, END].iter().filter_map(|mark| rest.find(mark)).min().unwrap_or(rest.len());
    if let Some((introduction, count, after)) = head(&rest[..end]).filter(|_| path.len() < DEPTH_MAX) {
        let step = step(introduction);
        *rest = &rest[after..];
        path.extend(step.clone());
        for _ in 0..count {
            let before = rest.len();
            *rest = rest.strip_prefix(BULLET).unwrap_or(rest);
            problem(rest, path, found);
            // The number may be larger than the number of errors, because it may be part of a name.
            if rest.len() == before {
                break;
            }
        }
        *rest = rest.strip_prefix(END).unwrap_or(rest);
        if step.is_some() {
            path.pop();
        }
        return;
    }
    let what = rest[..end].trim();
    *rest = &rest[end..];
    if !what.is_empty() {
        found.push(if path.is_empty() { what.to_owned() } else { format!("{}: {what}", path.join(" > ")) });
    }
}

/// Parses a heading: the text before the number of errors, the number, and the offset of the first error.
fn head(text: &str) -> Option<(&str, usize, usize)> {
    let (head, at) = HEADS.iter().find_map(|head| Some((head, text.find(head)?)))?;
    let digits = text[..at].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |before| before + 1);
    Some((&text[..digits], text[digits..at].parse().ok()?, at + head.len()))
}

/// The location in a heading.
fn step(introduction: &str) -> Option<String> {
    let words = introduction.trim().trim_end_matches(':').trim_end_matches("validation failed").trim();
    let named = |prefix: &str, kind: &str| Some(format!("{kind} \"{}\"", words.strip_prefix(prefix)?));
    // For example, "Task group network" does not mean a group with the name "network".
    let is_group = words.strip_prefix("Task group ").is_some_and(|name| {
        !["network", "service", "scaling policy"].contains(&name) && !name.starts_with("volume")
    });
    match words {
        "" => None,
        _ if is_group => named("Task group ", "group"),
        _ => named("Task group ", "")
            .map(|rest| rest.trim().trim_matches('"').to_owned())
            .or_else(|| named("Task ", "task"))
            .or(Some(words.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_told_with_the_way_to_them() {
        let text = "3 errors occurred:\n\t* Missing job ID\n\t* Task group web validation failed: 2 errors occurred:\n\t* \
            Task group count can't be negative\n\t* Task app validation failed: 1 error occurred:\n\t* 1 error occurred:\n\t* \
            minimum CPU value is 1; got 0\n\n\n\n\n\n\n\t* Task group db validation failed: 1 error occurred:\n\t* \
            Task group network validation failed: 1 error occurred:\n\t* Missing port label\n\n\n\n\n\n";
        insta::assert_snapshot!(flat(text).join("\n"), @r#"
    Missing job ID
    group "web": Task group count can't be negative
    group "web" > task "app": minimum CPU value is 1; got 0
    group "db" > network: Missing port label
    "#);
        assert_eq!(flat("Job ID contains a space"), ["Job ID contains a space"]);
        assert_eq!(flat(""), [""; 0]);
        assert_eq!(flat("9 errors occurred:\n\t* a"), ["a"]);
        assert_eq!(flat("99999999999999 errors occurred:\n\t* a\n\n"), ["a"], "it ends");
    }
}
