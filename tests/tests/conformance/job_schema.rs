//! Checks that the stored schema of jobs for editors equals the schema that is derived from the types.

use std::fs;
use std::path::Path;

use tests::job_schema::job_schema;

#[test]
fn the_stored_schema_equals_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/job.schema.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&job_schema()).unwrap());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == text, "docs/job.schema.json is out of date: run this test with UPDATE_SCHEMA=1");
}

#[test]
fn the_schema_knows_the_parts_of_a_job() {
    let schema = job_schema();
    let group = &schema["$defs"]["TaskGroup"]["properties"];
    assert_eq!(group["Count"]["type"], serde_json::json!(["integer", "null"]));
    assert_eq!(group["Tasks"]["items"]["$ref"], "#/$defs/Task");
    assert_eq!(schema["$defs"]["Task"]["properties"]["Config"]["additionalProperties"], true);
}
