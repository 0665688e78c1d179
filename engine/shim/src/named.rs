//! A table as a query text knows it, while it is planned: by the names that its resolver gave. What it stands for is a
//! source, or the plan of a view. Lifting puts that in its place; only what stays opaque reads through it.
use crate::error::Failure;
use crate::features::arrow::datatypes::SchemaRef;
use crate::features::async_trait::async_trait;
use crate::features::datafusion::catalog::{Session, TableProvider};
use crate::features::datafusion::common::Statistics;
use crate::features::datafusion::error::Result;
use crate::features::datafusion::execution::session_state::SessionState;
use crate::features::datafusion::logical_expr::{Expr, LogicalPlan, TableType};
use crate::features::datafusion::physical_expr::PhysicalExpr;
use crate::features::datafusion::physical_expr::expressions::{CastExpr, Column};
use crate::features::datafusion::physical_plan::ExecutionPlan;
use crate::features::datafusion::physical_plan::projection::ProjectionExec;
use crate::source::Source;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub enum Meaning {
    Source(Arc<Source>),
    View(Arc<LogicalPlan>),
    /// Something with a schema that cannot be read: the target of a statement.
    Nothing,
}

#[derive(Debug)]
pub struct Named {
    pub number: u32,
    pub schema: SchemaRef,
    pub meaning: Meaning,
}

impl Named {
    pub fn source(&self) -> Option<Arc<Source>> {
        match &self.meaning {
            Meaning::Source(source) => Some(Arc::clone(source)),
            _ => None,
        }
    }
}

/// `input`'s columns at `places`, with the names and types of `schema`.
fn renamed(input: Arc<dyn ExecutionPlan>, schema: &SchemaRef, places: &[usize]) -> Result<Arc<dyn ExecutionPlan>> {
    let from = input.schema();
    let mut exprs: Vec<(Arc<dyn PhysicalExpr>, String)> = vec![];
    for (at, place) in places.iter().enumerate() {
        let (is, wanted) = (from.field(at), schema.field(*place));
        let mut expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new(is.name(), at));
        if is.data_type() != wanted.data_type() {
            expr = Arc::new(CastExpr::new(expr, wanted.data_type().clone(), None));
        }
        exprs.push((expr, wanted.name().clone()));
    }
    Ok(Arc::new(ProjectionExec::try_new(exprs, input)?))
}

#[async_trait]
impl TableProvider for Named {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        match &self.meaning {
            Meaning::View(_) => TableType::View,
            _ => TableType::Base,
        }
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let places = projection.unwrap_or(&all);
        match &self.meaning {
            Meaning::Source(source) => {
                let input = source.provider.scan(state, Some(places), &[], limit).await?;
                renamed(input, &self.schema, places)
            }
            Meaning::View(plan) => {
                let Some(state) = state.as_any().downcast_ref::<SessionState>() else {
                    return Err(Failure::internal("a view outside of a session").into());
                };
                let input = state.create_physical_plan(plan).await?;
                let input = renamed(input, &self.schema, &all)?;
                let chosen: Vec<(Arc<dyn PhysicalExpr>, String)> = places
                    .iter()
                    .map(|place| {
                        let name = self.schema.field(*place).name();
                        (Arc::new(Column::new(name, *place)) as Arc<dyn PhysicalExpr>, name.clone())
                    })
                    .collect();
                Ok(Arc::new(ProjectionExec::try_new(chosen, input)?))
            }
            Meaning::Nothing => Err(Failure::unimplemented("reading what is only a name").into()),
        }
    }

    fn statistics(&self) -> Option<Statistics> {
        self.source().and_then(|source| source.provider.statistics())
    }
}
