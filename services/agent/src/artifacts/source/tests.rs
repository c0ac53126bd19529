//! Tests of what sources mean.

use super::*;

fn read(text: &str, options: &[(&str, &str)]) -> Result<Source, String> {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Source::read(text, &options)
}

fn http(text: &str, options: &[(&str, &str)]) -> (Source, String) {
    let source = read(text, options).unwrap();
    let Kind::Http(url) = source.kind.clone() else { panic!("{text}") };
    (source, url)
}

fn git(text: &str, options: &[(&str, &str)]) -> (Source, Git) {
    let source = read(text, options).unwrap();
    let Kind::Git(git) = source.kind.clone() else { panic!("{text}") };
    (source, git)
}

// A-17.1
#[test]
fn a_url_has_a_directory_and_options() {
    let (source, url) = http("https://example.org/a/tool.tar.gz//bin/x?archive=zip&sig=a%20b+c", &[]);
    assert_eq!(url, "https://example.org/a/tool.tar.gz?sig=a%20b+c", "what may be signed stays as it is");
    assert_eq!((source.subdir.as_deref(), source.format), (Some("bin/x"), Some(Format::Zip)));
    assert_eq!((&*source.file_name, &*source.shown), ("tool.tar.gz", "https://example.org/a/tool.tar.gz"));
    let (source, url) = http("https://example.org/a.zip", &[("archive", "false"), ("user", "a b")]);
    assert_eq!((url.as_str(), source.format), ("https://example.org/a.zip?user=a%20b", None));
    let (source, url) = http("http::https://example.org/", &[("filename", "x.txt")]);
    assert_eq!((&*source.file_name, &*url), ("x.txt", "https://example.org/"));
    assert_eq!(http("https://example.org", &[]).0.file_name, "index.html");
}

#[test]
fn repositories_are_named_in_several_ways() {
    let (source, repository) = git("git::https://example.org/a/b.git//c/d?ref=v1", &[("depth", "3")]);
    assert_eq!(repository.url, "https://example.org/a/b.git");
    assert_eq!((repository.reference.as_deref(), repository.depth), (Some("v1"), Some(3)));
    assert_eq!(source.subdir.as_deref(), Some("c/d"));
    assert_eq!(source.shown, "git::https://example.org/a/b.git");
    assert_eq!(git("github.com/a/b", &[]).1.url, "https://github.com/a/b.git");
    let (source, repository) = git("github.com/a/b/c?ref=main", &[]);
    assert_eq!((&*repository.url, source.subdir.as_deref()), ("https://github.com/a/b.git", Some("c")));
    let (_, repository) = git("git@example.org:a/b.git", &[("sshkey", "a2V5")]);
    assert_eq!(repository.url, "ssh://git@example.org/a/b.git");
    assert_eq!(repository.ssh_key.as_deref(), Some("a2V5"));
    assert_eq!(git("git::git@example.org:a/b.git", &[]).1.url, "ssh://git@example.org/a/b.git");
    assert_eq!(git("git::ssh://git@example.org/a.git?sshkey=a+b==", &[]).1.ssh_key.as_deref(), Some("a+b=="));
}

#[test]
fn what_is_not_built_or_not_valid_is_refused() {
    for (text, reason) in [
        ("s3::https://s3.amazonaws.com/b/k", "artifacts by s3 are not built into this agent"),
        ("gcs::https://www.googleapis.com/storage/v1/b/k", "artifacts by gcs are not built into this agent"),
        ("hg::https://example.org/a", "artifacts by hg are not built into this agent"),
        ("file:///etc/passwd", "artifacts by file are not built into this agent"),
        ("file::/etc/passwd", "artifacts by file are not built into this agent"),
        ("/etc/passwd", "the source has no scheme, such as https://"),
        ("ftp://example.org/a", r#"download not supported for scheme "ftp""#),
        ("ssh://git@example.org/a", "a repository needs git:: before its URL"),
        ("https://example.org/a.txt//b", "the source names a directory, and is no archive"),
        ("https://example.org/..%2fx", "the source gives its file no valid name"),
        ("git::https://example.org/a?ref=--upload-pack=x", "option ref is not valid"),
        ("git::https://example.org/a?depth=x", "option depth is no number"),
        ("git::https://example.org/a?sshkey=x", "option sshkey needs a URL with ssh"),
        ("git::https://example.org/a?archive=zip", "a repository has no checksum and is no archive"),
    ] {
        assert_eq!(read(text, &[]).map(|_| ()), Err(reason.to_owned()), "{text}");
    }
    let unknown = read("git::https://example.org/a", &[("x", "y")]).map(|_| ());
    assert_eq!(unknown, Err(r#"option "x" is unknown for git"#.to_owned()));
}

#[test]
fn secrets_are_known_and_not_shown() {
    let (source, url) = http("https://user:p%40ss@example.org/a?sig=s3cret", &[]);
    assert_eq!(source.shown, "https://example.org/a");
    assert!(url.contains("p%40ss") && url.contains("sig=s3cret"));
    for secret in ["p%40ss", "p@ss", "s3cret"] {
        assert!(source.secrets.iter().any(|known| known == secret), "{secret}");
    }
    assert!(git("git::ssh://git@example.org/a", &[]).0.secrets.is_empty());
}
