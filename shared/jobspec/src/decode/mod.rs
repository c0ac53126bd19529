//! Converts blocks to the job. One small function per block reads all of its attributes and inner blocks
//! (`docs/rules/jobspec.md` §9). Anything in the file that no function reads is an error.

mod access;
mod block;
mod connect;
mod free_form;
mod group;
mod job;
mod network;
mod policies;
mod resources;
mod service;
mod task;
mod template;

use api_types::Job;

pub(crate) use self::block::Block;
use crate::{
    error::Faults,
    eval::{Evaluator, Scope},
    fault::Fault,
    syntax::Body,
};

/// The evaluator and the list of errors that every function for a block needs.
pub(crate) struct Decoder<'a> {
    pub(crate) evaluator: &'a Evaluator<'a>,
    pub(crate) faults: &'a Faults,
}

/// The blocks that are allowed at the top level of a file.
const TOP_BLOCKS: [&str; 4] = ["job", "variable", "variables", "locals"];

/// The only job of a file; `None` only if an error has been recorded.
pub(crate) fn job_file(body: &Body, scope: Scope, decoder: &Decoder<'_>) -> Option<Job> {
    match body {
        Body::Native(body) => {
            block::record_unknown(decoder, body, &[], &TOP_BLOCKS);
            for dynamic in body.blocks.iter().filter(|block| block.kind == "dynamic") {
                let detail = "dynamic blocks are allowed within the job only";
                decoder.faults.record(Fault::new(dynamic.kind_at.clone(), "Unsupported block type", detail));
            }
        }
        Body::Json(body) => block::record_unknown_members(decoder, body, &[], &TOP_BLOCKS),
    }
    let mut jobs = Block::top(decoder, body, "job", 1).into_iter();
    let first = jobs.next();
    if let Some(second) = jobs.next() {
        let detail = "a file has one job block";
        decoder.faults.record(Fault::with_subject(second.at(), "Duplicate {} block", "job", detail));
    }
    let Some(mut first) = first else {
        let missing = Fault::new(0..0, "Missing job block", "a file has one job block: job \"name\" {");
        decoder.faults.record(Fault { at: None, ..missing });
        return None;
    };
    first.scope = scope;
    Some(first.read(job::job))
}
