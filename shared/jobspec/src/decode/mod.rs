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
mod suggest;
mod task;
mod template;

use api_types::Job;
use hcl_edit::structure::{Body, Structure};

use self::block::Block;
use crate::{
    error::{Fault, Faults},
    eval::{Evaluator, Scope},
    source::span,
};

/// What every block needs to be read.
pub(crate) struct Decoder<'a> {
    pub(crate) evaluator: &'a Evaluator<'a>,
    pub(crate) faults: &'a Faults,
}

/// The one job of a file; none only if that has been noted as wrong.
pub(crate) fn job_file(body: &Body, scope: Scope, decoder: &Decoder<'_>) -> Option<Job> {
    let mut jobs = Vec::new();
    for structure in body {
        match structure {
            Structure::Attribute(attribute) => {
                let detail =
                    format!("an argument named {:?} is not expected here", attribute.key.value().as_str());
                decoder.faults.note(Fault::new(span(&attribute.key), "Unsupported argument", detail));
            }
            Structure::Block(block) => match block.ident.value().as_str() {
                "job" => jobs.push(block),
                "variable" | "variables" | "locals" => {}
                other => {
                    let detail = format!("blocks of type {other:?} are not expected here");
                    decoder.faults.note(Fault::new(span(&block.ident), "Unsupported block type", detail));
                }
            },
        }
    }
    if let Some(second) = jobs.get(1) {
        let detail = "a file has one job block";
        decoder.faults.note(Fault::about(span(&second.ident), "Duplicate {} block", "job", detail));
    }
    let Some(first) = jobs.first() else {
        let missing = Fault::new(0..0, "Missing job block", "a file has one job block");
        decoder.faults.note(Fault { at: None, ..missing });
        return None;
    };
    Some(Block::new(decoder, first, scope).read(job::job))
}
