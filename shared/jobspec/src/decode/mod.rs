//! From blocks to the job: one small function a block, which asks for every attribute and block that there is
//! (`spec/jobspec.md` §9). Whatever a file has and nobody asked for is an error.

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
    error::{Fault, Faults},
    eval::{Evaluator, Scope},
    syntax::Body,
};

/// What every block needs to be read.
pub(crate) struct Decoder<'a> {
    pub(crate) evaluator: &'a Evaluator<'a>,
    pub(crate) faults: &'a Faults,
}

/// What a file itself may hold.
const TOP_BLOCKS: [&str; 4] = ["job", "variable", "variables", "locals"];

/// The one job of a file; none only if that has been noted as wrong.
pub(crate) fn job_file(body: &Body, scope: Scope, decoder: &Decoder<'_>) -> Option<Job> {
    match body {
        Body::Native(body) => {
            block::note_unknown(decoder, body, &[], &TOP_BLOCKS);
            for dynamic in body.blocks.iter().filter(|block| block.kind == "dynamic") {
                let detail = "blocks are made within the job, not in the file itself";
                decoder.faults.note(Fault::new(dynamic.kind_at.clone(), "Unsupported block type", detail));
            }
        }
        Body::Json(body) => block::note_unknown_members(decoder, body, &[], &TOP_BLOCKS),
    }
    let mut jobs = Block::top(decoder, body, "job", 1).into_iter();
    let first = jobs.next();
    if let Some(second) = jobs.next() {
        let detail = "a file has one job block";
        decoder.faults.note(Fault::about(second.at(), "Duplicate {} block", "job", detail));
    }
    let Some(mut first) = first else {
        let missing = Fault::new(0..0, "Missing job block", "a file has one job block: job \"name\" {");
        decoder.faults.note(Fault { at: None, ..missing });
        return None;
    };
    first.scope = scope;
    Some(first.read(job::job))
}
