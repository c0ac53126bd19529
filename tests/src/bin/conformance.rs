//! `make conformance`: runs recorded cases and prints the differences. Cases of the scheduler and job files run in this
//! process; scenes of the HTTP API are played to agents, which are the binary `drover-under-test` beside this one.
#![allow(clippy::print_stdout, reason = "printing is its purpose")]

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::ExitCode;

use tests::conformance::{EXEMPTIONS, Verdict, check};
use tests::job_files;
use tests::recorded::{Case, cases_of, files_in};
use tests::scenes::{self, Scene, scenes_in};

fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        println!("usage: conformance <folder or file>...");
        return ExitCode::FAILURE;
    }
    if let [path] = &paths[..]
        && let Some(cases) = job_files::cases_in(Path::new(path))
    {
        return check_job_files(&cases);
    }
    let scenes: Vec<Scene> = paths.iter().flat_map(|path| scenes_in(Path::new(path))).collect();
    let (passed, all) = if scenes.is_empty() { run_scheduler_cases(&paths) } else { replay_scenes(&scenes) };
    println!("passed {passed} of {all}");
    if passed == all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compares job files.
fn check_job_files(cases: &Path) -> ExitCode {
    match job_files::compare(cases) {
        Ok(report) => {
            println!("{report}");
            if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            println!("cannot read {}: {error}", cases.display());
            ExitCode::FAILURE
        }
    }
}

/// Plays scenes. Scenes that need something that is not built are listed separately, and count neither as passed nor as
/// failed.
fn replay_scenes(scenes: &[Scene]) -> (usize, usize) {
    let binary = std::env::current_exe()
        .expect("the path of this program is known")
        .with_file_name("drover-under-test");
    let (mut passed, mut failed, mut not_built) = (0, 0, BTreeMap::new());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    runtime.block_on(scenes::replay(&binary, scenes, |scene, verdict| match verdict {
        scenes::Verdict::Passed => passed += 1,
        scenes::Verdict::NotBuilt(what) => drop(not_built.insert(scene.name.clone(), what)),
        scenes::Verdict::Failed(reason) => {
            failed += 1;
            println!("{} failed\n    {reason}", scene.name);
        }
    }));
    for (name, what) in &not_built {
        println!("{name} needs something that is not built: {}", what.lines().collect::<Vec<_>>().join(" "));
    }
    println!("{} scenes need something that is not built", not_built.len());
    for scene in scenes.iter().filter(|scene| !not_built.contains_key(&scene.name)) {
        for departure in scene.departures() {
            println!("{} step {} departs from the reference: {}", scene.name, departure.step, departure.how);
        }
    }
    (passed, passed + failed)
}

/// Runs cases of the scheduler.
fn run_scheduler_cases(paths: &[String]) -> (usize, usize) {
    let files = paths.iter().flat_map(|path| files_in(Path::new(path)));
    let cases: Vec<Case> = files.flat_map(|file| cases_of(&file)).collect();
    let (mut passed, mut quirks, mut others) = (0, Vec::new(), 0);
    for case in &cases {
        if case.eval().is_none() {
            others += 1;
            continue;
        }
        let about = case.json["about"].as_str().unwrap_or_default();
        match catch_unwind(|| check(case)) {
            Ok(Verdict::Passed) => passed += 1,
            Ok(failed @ Verdict::Failed(_)) => println!("{} ({about}) {failed}", case.name),
            Err(_) => println!("{} ({about}) failed\n    the scheduler panicked", case.name),
        }
        if let Some(rules) = case.json["quirk"].as_str() {
            quirks.push((rules, &case.name));
        }
    }
    quirks.sort_unstable();
    for exempt in EXEMPTIONS {
        let mut named = quirks.iter().filter(|(rules, _)| rules.split(',').any(|rule| rule == exempt.rule));
        if let Some((_, first)) = named.next() {
            let what = if exempt.nodes { "nodes, victims" } else { "" };
            println!(
                "{}: {} cases, {first} first; free: {what} {}",
                exempt.rule,
                1 + named.count(),
                exempt.members.join(", ")
            );
        }
    }
    if others > 0 {
        println!("{others} lines without an evaluation were skipped");
    }
    (passed, cases.len() - others)
}
