//! Draws a trace as a waterfall: an SVG file for the documentation, legible on light and dark backgrounds.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::otlp::Span;

const WIDTH: f64 = 1180.0;
const ROW: f64 = 22.0;
const TOP: f64 = 44.0;
const LABELS: f64 = 470.0;
const INDENT: f64 = 12.0;
/// Space for the duration of a bar that ends at the right margin.
const LENGTHS: f64 = 70.0;
/// The smallest width of a bar, however short the span.
const BAR_MIN: f64 = 2.0;
/// Times that may get a line on the axis, in milliseconds.
const LINES: [u64; 11] = [1, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];
/// The smallest distance of those lines.
const LINES_APART: f64 = 55.0;
/// Services and their colours.
const COLOURS: [(&str, &str); 7] = [
    ("api", "#3b82c4"),
    ("plan-applier", "#c2603f"),
    ("eval-broker", "#8a63b8"),
    ("scheduler", "#3f9b6c"),
    ("node-tracker", "#b08b26"),
    ("deployment-watcher", "#5f7d95"),
    ("agent", "#bf4f86"),
];
const STYLE: &str = "\
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328; }
.dim { fill: #59636e; }
line { stroke: #d1d9e0; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .dim { fill: #9198a1; }
  line { stroke: #3d444d; }
}";

/// The spans under `root` as an SVG image, children under their parents in order of their start. The time axis is
/// scaled by the square root, because a trace begins with many short spans and ends with a few long ones.
pub fn draw(spans: &[Span], root: &str) -> String {
    let mut children: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        children.entry(&span.parent).or_default().push(span);
    }
    children.values_mut().for_each(|siblings| siblings.sort_by_key(|span| span.start));
    let mut rows = Vec::new();
    collect(root, &children, 0, &mut rows);
    let start = spans.iter().map(|span| span.start).min().unwrap_or_default();
    let end = spans.iter().map(|span| span.end).max().unwrap_or_default();
    let scale = (WIDTH - LABELS - LENGTHS) / (end.saturating_sub(start).max(1) as f64).sqrt();
    let x_of = |at: u64| LABELS + (at.saturating_sub(start) as f64).sqrt() * scale;

    let height = TOP + ROW * rows.len() as f64 + 8.0;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Waterfall of a trace">"#
    );
    let _ = writeln!(svg, "\n<style>\n{STYLE}\n</style>");
    let mut free = 0.0;
    for millis in LINES.into_iter().filter(|millis| start + millis * 1_000_000 <= end) {
        let x = x_of(start + millis * 1_000_000);
        if x < free {
            continue;
        }
        free = x + LINES_APART;
        let _ = writeln!(svg, r#"<line x1="{x:.1}" y1="{TOP}" x2="{x:.1}" y2="{height}"/>"#);
        let _ =
            writeln!(svg, r#"<text class="dim" x="{x:.1}" y="38" text-anchor="middle">{millis} ms</text>"#);
    }
    let present = COLOURS.iter().filter(|(service, _)| spans.iter().any(|span| name(span) == *service));
    for (number, (service, colour)) in present.enumerate() {
        let x = 8.0 + number as f64 * 150.0;
        let _ = writeln!(svg, r#"<rect x="{x}" y="6" width="12" height="12" rx="2" fill="{colour}"/>"#);
        let _ = writeln!(svg, r#"<text x="{}" y="16">{service}</text>"#, x + 18.0);
    }
    for (number, (span, depth)) in rows.into_iter().enumerate() {
        let (y, x) = (TOP + ROW * number as f64, x_of(span.start));
        let width = (x_of(span.end) - x).max(BAR_MIN);
        let colour =
            COLOURS.iter().find(|(service, _)| name(span) == *service).map_or("#888", |(_, found)| found);
        let indent = 8.0 + INDENT * depth as f64;
        let label = span.name.replace('&', "&amp;").replace('<', "&lt;");
        let command = span.attributes.get("drover.command").map(|command| format!("\u{a0}{command}"));
        let command = command.unwrap_or_default();
        let _ = writeln!(
            svg,
            r#"<text x="{indent}" y="{:.1}">{label}<tspan class="dim">{command}</tspan></text>"#,
            y + 15.0
        );
        let _ = writeln!(
            svg,
            r#"<rect x="{x:.1}" y="{:.1}" width="{width:.1}" height="14" rx="2" fill="{colour}"/>"#,
            y + 4.0
        );
        let length = span.end.saturating_sub(span.start) as f64 / 1e6;
        let _ = writeln!(
            svg,
            r#"<text class="dim" x="{:.1}" y="{:.1}">{length:.2} ms</text>"#,
            x + width + 5.0,
            y + 15.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn name(span: &Span) -> &str {
    span.service().trim_start_matches("drover-")
}

fn collect<'a>(
    parent: &str,
    children: &BTreeMap<&str, Vec<&'a Span>>,
    depth: usize,
    rows: &mut Vec<(&'a Span, usize)>,
) {
    for span in children.get(parent).into_iter().flatten() {
        rows.push((span, depth));
        collect(&span.span_id, children, depth + 1, rows);
    }
}
