//! Text about plans: explain, metrics.
use crate::error::{Failure, Fallible};
use crate::features::datafusion::logical_expr::LogicalPlan;
use crate::features::datafusion::physical_plan::{ExecutionPlan, displayable};
use crate::runtime::Session;
use std::fmt::Write;
use std::sync::Arc;

pub fn explain(session: &Session, plan: &LogicalPlan, what: i32) -> Fallible<String> {
    Ok(match what {
        0 => plan.display_indent().to_string(),
        1 => session.state.optimize(plan)?.display_indent().to_string(),
        2 => {
            let physical = session.runtime.handle()?.block_on(session.state.create_physical_plan(plan))?;
            displayable(physical.as_ref()).indent(true).to_string()
        }
        other => return Err(Failure::invalid(format!("explain {other}"))),
    })
}

fn json_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            control if (control as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// [{"node":0,"parent":-1,"name":"..","metrics":{"output_rows":1,...}}], parents before children.
pub fn metrics(plan: &Arc<dyn ExecutionPlan>) -> String {
    let mut out = String::from("[");
    let mut nodes: Vec<(&Arc<dyn ExecutionPlan>, i64)> = vec![(plan, -1)];
    let mut number = 0i64;
    while let Some((node, parent)) = nodes.pop() {
        if number > 0 {
            out.push(',');
        }
        let _ = write!(out, "{{\"node\":{number},\"parent\":{parent},\"name\":");
        json_text(&mut out, node.name());
        out.push_str(",\"metrics\":{");
        if let Some(set) = node.metrics() {
            let mut first = true;
            for metric in set.aggregate_by_name().iter() {
                if !first {
                    out.push(',');
                }
                first = false;
                json_text(&mut out, metric.value().name());
                let _ = write!(out, ":{}", metric.value().as_usize());
            }
        }
        out.push_str("}}");
        for child in node.children().into_iter().rev() {
            nodes.push((child, number));
        }
        number += 1;
    }
    out.push(']');
    out
}
