//! Makes each step of a template visible to its writer: an empty text before each action, which the writer counts. The
//! engine bounds iterations and nesting by itself, but neither steps nor time.

use gotmpl::parse::{CommandNode, Expr, ListNode, Node, PipeNode, Pos, TextNode};

/// A copy of a tree in which an empty text precedes every node.
pub(crate) fn counted(list: &ListNode) -> ListNode {
    let mut nodes = Vec::with_capacity(list.nodes.len().saturating_mul(2).saturating_add(1));
    // A list without nodes is a step as well.
    nodes.push(step());
    for node in &list.nodes {
        nodes.push(step());
        nodes.push(counted_node(node));
    }
    ListNode { pos: list.pos, nodes }
}

fn step() -> Node {
    Node::Text(TextNode { pos: Pos::new(0, 0), text: "".into() })
}

fn counted_node(node: &Node) -> Node {
    let branch = |branch: &gotmpl::parse::IfNode| {
        let mut branch = branch.clone();
        branch.body = counted(&branch.body);
        branch.else_body = branch.else_body.as_ref().map(counted);
        branch
    };
    match node {
        Node::List(list) => Node::List(counted(list)),
        Node::If(of) => Node::If(branch(of)),
        Node::Range(of) => Node::Range(branch(of)),
        Node::With(of) => Node::With(branch(of)),
        Node::Text(_)
        | Node::Action(_)
        | Node::Template(_)
        | Node::Define(_)
        | Node::Break(_)
        | Node::Continue(_) => node.clone(),
    }
}

/// Calls a function for the name of every function that a tree calls.
pub(crate) fn each_function(list: &ListNode, found: &mut dyn FnMut(&str)) {
    for node in &list.nodes {
        match node {
            Node::List(list) => each_function(list, found),
            Node::If(branch) | Node::Range(branch) | Node::With(branch) => {
                in_pipe(&branch.pipe, found);
                each_function(&branch.body, found);
                if let Some(body) = &branch.else_body {
                    each_function(body, found);
                }
            }
            Node::Action(action) => in_pipe(&action.pipe, found),
            Node::Template(call) => {
                if let Some(pipe) = &call.pipe {
                    in_pipe(pipe, found);
                }
            }
            Node::Text(_) | Node::Define(_) | Node::Break(_) | Node::Continue(_) => {}
        }
    }
}

fn in_pipe(pipe: &PipeNode, found: &mut dyn FnMut(&str)) {
    for CommandNode { args, .. } in &pipe.commands {
        for arg in args {
            in_expression(arg, found);
        }
    }
}

fn in_expression(expression: &Expr, found: &mut dyn FnMut(&str)) {
    match expression {
        Expr::Identifier(_, name) => found(name.as_str()),
        Expr::Chain(_, inner, _) => in_expression(inner, found),
        Expr::Pipe(_, pipe) => in_pipe(pipe, found),
        Expr::Dot(_)
        | Expr::Field(_, _)
        | Expr::Variable(_, _, _)
        | Expr::String(_, _)
        | Expr::Number(_, _)
        | Expr::Bool(_, _)
        | Expr::Nil(_) => {}
    }
}
