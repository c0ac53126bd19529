//! Checks the dashboards for Grafana: they are generated from [`boards`](crate::boards), Prometheus can parse their
//! expressions, and their metrics exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests::promtool::promtool;

use crate::boards::{BOARDS, Board, Kind, Panel};
use crate::emitted::faults;

/// The width of a dashboard, and the sizes of its panels.
const WIDTH: u32 = 24;
const STAT: (u32, u32) = (4, 4);
const GRAPH: (u32, u32) = (8, 8);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/observability/dashboards")
}

/// A dashboard in Grafana's format.
fn board(board: &Board) -> Value {
    let mut panels = Vec::new();
    let (mut x, mut y) = (0, 0);
    for row in board.rows {
        panels.push(json!({
            "id": panels.len() + 1, "type": "row", "title": row.title, "collapsed": false, "panels": [],
            "gridPos": { "x": 0, "y": y, "w": WIDTH, "h": 1 },
        }));
        y += 1;
        let mut lowest = y;
        for one in row.panels {
            let (width, height) = if one.kind == Kind::Stat { STAT } else { GRAPH };
            if x + width > WIDTH {
                (x, y) = (0, lowest);
            }
            panels.push(panel(one, panels.len() + 1, &json!({ "x": x, "y": y, "w": width, "h": height })));
            lowest = lowest.max(y + height);
            x += width;
        }
        (x, y) = (0, lowest);
    }
    json!({
        "uid": format!("drover-{}", board.name),
        "title": board.title,
        "tags": ["drover"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-1h", "to": "now" },
        "timezone": "browser",
        "links": [{ "type": "dashboards", "tags": ["drover"], "title": "Drover", "asDropdown": true, "keepTime": true }],
        "templating": { "list": [{
            "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus",
        }] },
        "panels": panels,
    })
}

fn panel(panel: &Panel, id: usize, position: &Value) -> Value {
    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    let names = ('A'..='Z').map(String::from);
    let targets: Vec<Value> = names
        .zip(panel.queries)
        .map(|(name, (expression, legend))| {
            json!({ "refId": name, "datasource": source, "expr": expression, "legendFormat": legend, "instant": panel.kind == Kind::Stat })
        })
        .collect();
    let mut shown = json!({
        "id": id, "title": panel.title, "gridPos": position, "datasource": source, "targets": targets,
        "type": if panel.kind == Kind::Stat { "stat" } else { "timeseries" },
        "fieldConfig": { "defaults": { "unit": panel.unit }, "overrides": [] },
    });
    if !panel.description.is_empty() {
        shown["description"] = json!(panel.description);
    }
    shown
}

fn panels() -> impl Iterator<Item = (&'static Board, &'static Panel)> {
    BOARDS.iter().flat_map(|board| {
        board.rows.iter().flat_map(move |row| row.panels.iter().map(move |panel| (board, panel)))
    })
}

#[test]
fn the_stored_dashboards_equal_the_generated_ones() {
    let update = std::env::var_os("UPDATE_METRICS").is_some();
    for one in BOARDS {
        let path = folder().join(format!("{}.json", one.name));
        let text = format!("{}\n", serde_json::to_string_pretty(&board(one)).unwrap());
        if update {
            fs::write(&path, &text).unwrap();
        }
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "{} is out of date: run this test with UPDATE_METRICS=1", path.display());
    }
    let stored: BTreeSet<_> = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    let generated: BTreeSet<_> = BOARDS.iter().map(|one| format!("{}.json", one.name).into()).collect();
    assert_eq!(stored, generated);
}

/// Checks the files and not their source, because Grafana loads the files.
#[test]
fn every_panel_names_metrics_that_there_are() {
    let (mut wrong, mut expressions) = (Vec::new(), 0);
    for file in fs::read_dir(folder()).unwrap() {
        let path = file.unwrap().path();
        let board: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for panel in board["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                expressions += 1;
                let found = faults(target["expr"].as_str().unwrap());
                wrong.extend(
                    found.into_iter().map(|fault| format!("{}, {}: {fault}", path.display(), panel["title"])),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(expressions > 80, "{expressions}");
}

/// The expressions are checked as rules, because promtool does not read dashboards.
#[test]
fn prometheus_can_read_every_expression() {
    let rules: Vec<Value> = panels()
        .flat_map(|(_, panel)| panel.queries)
        .enumerate()
        .map(|(number, (expression, _))| json!({ "record": format!("panel:{number}"), "expr": expression.replace("$__rate_interval", "1m") }))
        .collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    // YAML is a superset of JSON.
    fs::write(file.path(), json!({ "groups": [{ "name": "panels", "rules": rules }] }).to_string()).unwrap();
    let output = promtool(&["check", "rules", &file.path().display().to_string()], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
}

#[test]
fn panels_have_a_title_of_their_own() {
    let mut titles = BTreeSet::new();
    for (board, panel) in panels() {
        assert!(titles.insert((board.name, panel.title)), "{}: {} exists twice", board.title, panel.title);
        assert!(!panel.queries.is_empty(), "{}", panel.title);
    }
}
