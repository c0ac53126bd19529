//! Templates and artifacts of a task. Fills in the defaults that §11 requires here.

use api_types::{ChangeScript, TaskArtifact, Template, WaitConfig};

use super::block::Block;

const SPLAY: i64 = 5_000_000_000;
const SCRIPT_TIMEOUT: i64 = 5_000_000_000;

pub(super) fn template(block: &mut Block<'_>) -> Template {
    Template {
        source_path: block.text("source"),
        dest_path: block.text("destination"),
        embedded_tmpl: block.text("data"),
        change_mode: Some(block.text("change_mode").unwrap_or_else(|| "restart".to_owned())),
        change_signal: block.text("change_signal"),
        change_script: block.one("change_script", change_script).map(Box::new),
        once: block.flag("once"),
        splay: Some(block.duration("splay").unwrap_or(SPLAY)),
        perms: Some(block.text("perms").unwrap_or_else(|| "0644".to_owned())),
        uid: block.int("uid"),
        gid: block.int("gid"),
        left_delim: block.text("left_delimiter"),
        right_delim: block.text("right_delimiter"),
        envvars: block.flag("env"),
        vault_grace: block.duration("vault_grace"),
        wait: block
            .one("wait", |block| WaitConfig { min: block.duration("min"), max: block.duration("max") }),
        err_missing_key: Some(block.flag("error_on_missing_key").unwrap_or(false)),
    }
}

fn change_script(block: &mut Block<'_>) -> ChangeScript {
    ChangeScript {
        command: block.text("command"),
        args: Some(block.texts("args").unwrap_or_default()),
        timeout: Some(block.duration("timeout").unwrap_or(SCRIPT_TIMEOUT)),
        fail_on_error: Some(block.flag("fail_on_error").unwrap_or(false)),
        run_on_first_render: Some(block.flag("run_on_first_render").unwrap_or(false)),
    }
}

pub(super) fn artifact(block: &mut Block<'_>) -> TaskArtifact {
    TaskArtifact {
        getter_source: block.text("source"),
        getter_options: block.text_map_block("options"),
        getter_headers: block.text_map_block("headers"),
        getter_mode: block.text("mode"),
        getter_insecure: block.flag("insecure"),
        relative_dest: block.text("destination"),
        chown: block.flag_or_false("chown"),
    }
}
