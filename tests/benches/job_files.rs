//! Job files: how long it takes to parse one and to fill in its defaults.
//!
//! Prints one table with the measured values and their limits. Uses one core, and no services.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use jobspec::{Options, parse};

/// The same allocator as `drover`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long each line is measured.
const WINDOW: Duration = Duration::from_secs(2);

fn main() {
    println!("job files: parsed, and defaults filled in\n");
    println!("{:<52} {:>10} {:>10} {:>10}", "", "ms, best", "median", "limit");
    line("an ordinary one of 150 lines", &ordinary(), "1");
    line("1 MB, 2,000 groups", &large(2_000, 1 << 20), "300");
    line("1 MB, one attribute a line in one block", &attributes(), "");
    line("2,000 groups made by a dynamic block", &dynamic(2_000), "");
}

fn line(what: &str, source: &str, limit: &str) {
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < WINDOW || times.is_empty() {
        let start = Instant::now();
        let mut job = parse(source, &Options::default()).expect("the file is valid");
        model::canonicalise(&mut job);
        black_box(&job);
        times.push(start.elapsed());
    }
    times.sort();
    let ms = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1000.0);
    println!("{what:<52} {:>10} {:>10} {limit:>10}", ms(times[0]), ms(times[times.len() / 2]));
}

/// A typical group of about 30 lines.
fn group(name: &str) -> String {
    format!(
        r#"  group "{name}" {{
    count = var.count
    constraint {{
      attribute = "${{attr.kernel.name}}"
      value     = "linux"
    }}
    network {{
      port "http" {{ to = 8080 }}
    }}
    service {{
      name     = "{name}-${{NOMAD_GROUP_NAME}}"
      port     = "http"
      provider = "nomad"
      check {{
        type     = "http"
        path     = "/health"
        interval = "10s"
        timeout  = "2s"
      }}
    }}
    task "app" {{
      driver = "docker"
      config {{
        image = "registry.example.org/{name}:${{var.tag}}"
        ports = ["http"]
        args  = [for i in range(2) : format("-shard=%d", i)]
      }}
      env {{
        LOG_LEVEL = upper(local.level)
      }}
      resources {{
        cpu    = 200
        memory = 128
      }}
    }}
  }}
"#
    )
}

fn file(groups: &str) -> String {
    format!(
        "variable \"count\" {{\n  type    = number\n  default = 2\n}}\nvariable \"tag\" {{\n  default = \"1.0\"\n}}\n\
         locals {{\n  level = \"info\"\n}}\n\njob \"bench\" {{\n  datacenters = [\"dc1\", \"dc2\"]\n{groups}}}\n"
    )
}

fn ordinary() -> String {
    file(&["web", "api", "worker", "mail"].map(group).concat())
}

/// A file with a number of groups, padded with comments to a size.
fn large(groups: usize, bytes: usize) -> String {
    let mut text = String::new();
    for at in 0..groups {
        let _ = write!(
            text,
            "  group \"g{at}\" {{\n    count = {}\n    task \"t\" {{\n      driver = \"raw_exec\"\n      config {{\n        command = \"/bin/sleep\"\n        \
             args    = [\"${{NOMAD_ALLOC_INDEX}}\", \"{at}\"]\n      }}\n      resources {{\n        cpu    = 20\n        memory = 32\n      }}\n      \
             env {{\n        PORT = \"${{NOMAD_PORT_http}}\"\n        MODE = var.tag\n      }}\n    }}\n    network {{\n      port \"http\" {{}}\n    }}\n  }}\n",
            at % 7
        );
        while text.len() < bytes / groups * (at + 1) {
            text.push_str("  # what the next group is for, in words\n");
        }
    }
    file(&text)
}

fn attributes() -> String {
    let lines: String = (0..40_000).map(|at| format!("    KEY_{at} = \"value {at}\"\n")).collect();
    file(&format!("  meta {{\n{lines}  }}\n"))
}

fn dynamic(groups: usize) -> String {
    file(&format!(
        "  dynamic \"group\" {{\n    for_each = flatten([for i in range({}) : range(1000)])\n    labels   = [\"g${{group.key}}\"]\n    \
         content {{\n      count = group.value\n    }}\n  }}\n",
        groups / 1000
    ))
}
