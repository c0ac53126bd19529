//! Detects Java on the node, by what `java -version` says.

use std::process::{Command, Stdio};

use model::Text;

use super::Attributes;
use crate::driver::DEFAULT_PATH;
use crate::isolation::command::find_in;

/// The program.
const JAVA: &str = "java";
/// Why the driver is not there.
pub(super) const ABSENT: &str = "java is not installed on this node";

/// The attributes of the driver; `None` if there is no Java.
pub(super) fn attributes() -> Option<Attributes> {
    let program = find_in(JAVA, DEFAULT_PATH)?;
    let output = Command::new(program)
        .arg("-version")
        // It must not take options from the agent's environment.
        .env_clear()
        .env("PATH", DEFAULT_PATH)
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    // Java writes to its error output.
    Some(parsed(&String::from_utf8_lossy(&output.stderr)))
}

/// Reads the version, the runtime and the virtual machine from lines such as `openjdk version "17.0.8" 2023-07-18`,
/// `OpenJDK Runtime Environment (build 17.0.8+7)` and `OpenJDK 64-Bit Server VM (build 17.0.8+7, mixed mode)`.
fn parsed(text: &str) -> Attributes {
    let mut attributes = Attributes::from([("driver.java".into(), "true".into())]);
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.starts_with("Picked up")).collect();
    let version = lines.first().and_then(|line| line.split('"').nth(1));
    for (name, value) in
        [("version", version), ("runtime", lines.get(1).copied()), ("vm", lines.get(2).copied())]
    {
        if let Some(value) = value {
            attributes.insert(Text::from(format!("driver.java.{name}")), value.into());
        }
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_java_says_of_itself_becomes_attributes() {
        let text = "openjdk version \"17.0.8\" 2023-07-18\nOpenJDK Runtime Environment (build 17.0.8+7)\n\
                    OpenJDK 64-Bit Server VM (build 17.0.8+7, mixed mode)\n";
        let attributes = parsed(text);
        assert_eq!(&*attributes["driver.java"], "true");
        assert_eq!(&*attributes["driver.java.version"], "17.0.8");
        assert_eq!(&*attributes["driver.java.runtime"], "OpenJDK Runtime Environment (build 17.0.8+7)");
        assert_eq!(&*attributes["driver.java.vm"], "OpenJDK 64-Bit Server VM (build 17.0.8+7, mixed mode)");
        assert_eq!(parsed("").len(), 1);
    }
}
