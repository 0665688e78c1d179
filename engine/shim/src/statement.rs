//! Statements: queries, and what is no query as a command with its parts.
use crate::error::{Failure, Fallible};
use crate::features::arrow::datatypes::{Field, Schema};
use crate::features::datafusion::common::{DFSchema, SchemaReference, TableReference};
use crate::features::datafusion::logical_expr::dml::InsertOp;
use crate::features::datafusion::logical_expr::{
    Case, CreateExternalTable, DdlStatement, DmlStatement, Expr, Filter, LogicalPlan, Projection, Values, WriteOp, lit,
};
use crate::features::datafusion::logical_expr::{Statement as LogicalStatement, TransactionConclusion};
use crate::features::datafusion::sql::parser::Statement as Parsed;
use crate::features::datafusion::sql::planner::SqlToRel;
use crate::features::datafusion::sql::sqlparser::ast::{
    AlterTableOperation, Ident, ObjectName, RenameTableNameKind, SchemaName, Statement as Ast, Use,
};
use crate::sql::{Bound, Context, analyzed, bind, parameters, parse, parser_options, parts, planning_failure};
use std::sync::Arc;

/// Numbers of trn_command_kind in include/trunnion/catalog.h; 0 is a query.
pub mod kind {
    pub const USE: i32 = 1;
    pub const CREATE_DATABASE: i32 = 2;
    pub const DROP_DATABASE: i32 = 3;
    pub const CREATE_TABLE: i32 = 5;
    pub const CREATE_VIEW: i32 = 6;
    pub const DROP_TABLE: i32 = 7;
    pub const DROP_VIEW: i32 = 8;
    pub const RENAME_TABLE: i32 = 9;
    pub const TRUNCATE_TABLE: i32 = 11;
    pub const INSERT: i32 = 12;
    pub const DELETE: i32 = 13;
    pub const UPDATE: i32 = 14;
    pub const COPY: i32 = 15;
    pub const SET: i32 = 20;
    pub const BEGIN: i32 = 100;
    pub const COMMIT: i32 = 101;
    pub const ROLLBACK: i32 = 102;
}

pub mod flag {
    pub const IF_EXISTS: u32 = 1;
    pub const IF_NOT_EXISTS: u32 = 2;
    pub const OR_REPLACE: u32 = 4;
    pub const CASCADE: u32 = 8;
    pub const IS_CATALOG: u32 = 16;
    pub const EXTERNAL: u32 = 32;
    pub const OVERWRITE: u32 = 64;
}

#[derive(Default)]
pub struct Statement {
    pub kind: i32,
    pub plan: Option<LogicalPlan>,
    pub schema: Option<Schema>,
    pub parameters: Vec<Field>,
    pub flags: u32,
    pub name: Vec<String>,
    pub to: Vec<String>,
    /// Partition columns of a table, of a COPY; names of a view's columns; a setting's key.
    pub columns: Vec<String>,
    /// A view's query; a setting's value.
    pub text: Option<String>,
    pub format: Option<String>,
    pub location: Option<String>,
    pub options: Vec<(String, String)>,
}

fn if_set(condition: bool, bit: u32) -> u32 {
    if condition { bit } else { 0 }
}

fn refused(what: impl std::fmt::Display) -> Failure {
    Failure::unimplemented(format!("{what} in SQL")).condition("UNSUPPORTED_FEATURE")
}

fn schema_parts(name: &SchemaReference) -> Vec<String> {
    match name {
        SchemaReference::Bare { schema } => vec![schema.to_string()],
        SchemaReference::Full { schema, catalog } => vec![catalog.to_string(), schema.to_string()],
    }
}

struct Planner<'a> {
    context: &'a Context<'a>,
    text: &'a str,
    bound: Option<&'a Bound>,
}

/// Plans one statement.
pub fn plan(context: &Context, text: &str, bound: Option<&Bound>) -> Fallible<Statement> {
    let parsed = parse(context.state, text)?;
    let planner = Planner { context, text, bound };
    planner.statement(parsed)
}

impl Planner<'_> {
    fn failure(&self, error: crate::features::datafusion::error::DataFusionError) -> Failure {
        self.context.explain(planning_failure(self.text, error))
    }

    fn folded(&self, ident: &Ident) -> String {
        let fold = self.context.state.config_options().sql_parser.enable_ident_normalization;
        match ident.quote_style {
            None if fold => ident.value.to_lowercase(),
            _ => ident.value.clone(),
        }
    }

    fn normalized(&self, name: &ObjectName) -> Fallible<Vec<String>> {
        let idents: Option<Vec<String>> = name.0.iter().map(|one| one.as_ident().map(|one| self.folded(one))).collect();
        idents.ok_or_else(|| refused(format!("the name {name}")))
    }

    /// Statements that the engine's planner has no plan for.
    fn without_plan(&self, parsed: &Parsed) -> Fallible<Option<Statement>> {
        let Parsed::Statement(ast) = parsed else { return Ok(None) };
        Ok(Some(match ast.as_ref() {
            Ast::Use(Use::Catalog(name)) => {
                let name = self.normalized(name)?;
                Statement { kind: kind::USE, name, flags: flag::IS_CATALOG, ..Default::default() }
            }
            Ast::Use(Use::Schema(name) | Use::Database(name) | Use::Object(name)) => {
                Statement { kind: kind::USE, name: self.normalized(name)?, ..Default::default() }
            }
            Ast::AlterTable(alter) => match alter.operations.as_slice() {
                [AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(to) }] => Statement {
                    kind: kind::RENAME_TABLE,
                    name: self.normalized(&alter.name)?,
                    to: self.normalized(to)?,
                    flags: if_set(alter.if_exists, flag::IF_EXISTS),
                    ..Default::default()
                },
                _ => return Err(refused("ALTER TABLE other than RENAME TO")),
            },
            Ast::CreateSchema { schema_name: SchemaName::Simple(name), if_not_exists, .. } => Statement {
                kind: kind::CREATE_DATABASE,
                name: self.normalized(name)?,
                flags: if_set(*if_not_exists, flag::IF_NOT_EXISTS),
                ..Default::default()
            },
            Ast::CreateView(view) if view.materialized => return Err(refused("materialized views")),
            _ => return Ok(None),
        }))
    }

    /// What only the text knows of a view: its query, its column names, IF NOT EXISTS. BEGIN is START TRANSACTION.
    fn amend(&self, parsed: &mut Parsed, out: &mut Statement) {
        if let Parsed::Statement(ast) = parsed
            && let Ast::StartTransaction { begin, .. } = ast.as_mut()
        {
            *begin = false;
        }
        if let Parsed::Statement(ast) = parsed
            && let Ast::CreateView(view) = ast.as_mut()
        {
            out.text = Some(view.query.to_string());
            out.flags |= if_set(std::mem::take(&mut view.if_not_exists), flag::IF_NOT_EXISTS);
            out.columns = view.columns.iter().map(|column| self.folded(&column.name)).collect();
        }
    }

    fn statement(&self, mut parsed: Parsed) -> Fallible<Statement> {
        if let Some(statement) = self.without_plan(&parsed)? {
            return Ok(statement);
        }
        let planner = SqlToRel::new_with_options(self.context, parser_options(self.context.state));
        let mut out = Statement::default();
        self.amend(&mut parsed, &mut out);
        let plan = planner.statement_to_plan(parsed).map_err(|error| self.failure(error))?;
        out.parameters = parameters(&plan)?;
        let plan = match self.bound {
            Some(bound) => bind(plan, bound)?,
            None => plan,
        };
        self.lifted(plan, &mut out)?;
        Ok(out)
    }

    fn give(&self, out: &mut Statement, plan: LogicalPlan) -> Fallible<()> {
        let plan = analyzed(self.context.state, plan);
        out.plan = Some(plan.map_err(|failure| self.context.explain(failure))?);
        Ok(())
    }

    fn lifted(&self, plan: LogicalPlan, out: &mut Statement) -> Fallible<()> {
        match plan {
            LogicalPlan::Ddl(ddl) => self.ddl(ddl, out),
            LogicalPlan::Dml(dml) => self.dml(dml, out),
            LogicalPlan::Copy(copy) => {
                out.kind = kind::COPY;
                out.format = Some(copy.file_type.get_ext());
                out.location = Some(copy.output_url);
                out.columns = copy.partition_by;
                out.options = sorted(copy.options);
                self.give(out, copy.input.as_ref().clone())
            }
            LogicalPlan::Statement(statement) => command(statement, out),
            LogicalPlan::DescribeTable(table) => self.give(out, describe(&table.schema)?),
            plan => self.give(out, plan),
        }
    }

    fn ddl(&self, ddl: DdlStatement, out: &mut Statement) -> Fallible<()> {
        match ddl {
            DdlStatement::CreateExternalTable(create) => external_table(*create, out),
            DdlStatement::CreateMemoryTable(create) => {
                out.kind = kind::CREATE_TABLE;
                out.name = parts(&create.name);
                out.flags |= if_set(create.if_not_exists, flag::IF_NOT_EXISTS);
                out.flags |= if_set(create.or_replace, flag::OR_REPLACE);
                out.schema = Some(with_defaults(create.input.schema(), &create.column_defaults));
                match create.input.as_ref() {
                    LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row => Ok(()),
                    input => self.give(out, input.clone()),
                }
            }
            DdlStatement::CreateView(create) => {
                out.kind = kind::CREATE_VIEW;
                out.name = parts(&create.name);
                out.flags |= if_set(create.or_replace, flag::OR_REPLACE);
                if !out.parameters.is_empty() {
                    return Err(refused("parameters of a view"));
                }
                let plan = analyzed(self.context.state, create.input.as_ref().clone())?;
                out.schema = Some(plan.schema().as_arrow().clone());
                out.plan = Some(plan);
                Ok(())
            }
            DdlStatement::DropCatalogSchema(drop) => {
                out.kind = kind::DROP_DATABASE;
                out.name = schema_parts(&drop.name);
                out.flags |= if_set(drop.if_exists, flag::IF_EXISTS) | if_set(drop.cascade, flag::CASCADE);
                Ok(())
            }
            DdlStatement::DropTable(drop) => dropped(kind::DROP_TABLE, &drop.name, drop.if_exists, out),
            DdlStatement::DropView(drop) => dropped(kind::DROP_VIEW, &drop.name, drop.if_exists, out),
            other => Err(refused(other.name())),
        }
    }

    fn dml(&self, dml: DmlStatement, out: &mut Statement) -> Fallible<()> {
        out.name = parts(&dml.table_name);
        let input = dml.input.as_ref().clone();
        let input = match dml.op {
            WriteOp::Insert(InsertOp::Append) => {
                out.kind = kind::INSERT;
                input
            }
            WriteOp::Insert(InsertOp::Overwrite) => {
                out.kind = kind::INSERT;
                out.flags |= flag::OVERWRITE;
                input
            }
            WriteOp::Delete => {
                out.kind = kind::DELETE;
                staying(input)?
            }
            WriteOp::Update => {
                out.kind = kind::UPDATE;
                changed(input)?
            }
            WriteOp::Truncate => {
                out.kind = kind::TRUNCATE_TABLE;
                return Ok(());
            }
            other => return Err(refused(other.name())),
        };
        self.give(out, input)
    }
}

fn sorted(options: std::collections::HashMap<String, String>) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = options.into_iter().collect();
    out.sort();
    out
}

/// The columns with their defaults as texts, where they have any.
fn with_defaults(schema: &DFSchema, defaults: &[(String, Expr)]) -> Schema {
    let fields = schema.fields().iter().map(|field| {
        let default = defaults.iter().find(|(name, _)| name == field.name());
        let mut field = field.as_ref().clone();
        if let Some((_, expr)) = default {
            let mut metadata = field.metadata().clone();
            metadata.insert("default".to_string(), expr.human_display().to_string());
            field = field.with_metadata(metadata);
        }
        field
    });
    Schema::new(fields.collect::<Vec<Field>>())
}

fn external_table(create: CreateExternalTable, out: &mut Statement) -> Fallible<()> {
    if create.unbounded {
        return Err(refused("unbounded tables"));
    }
    if create.temporary {
        return Err(refused("temporary tables"));
    }
    let mut locations = create.locations.into_iter();
    out.location = locations.next();
    if locations.next().is_some() {
        return Err(refused("several locations of a table"));
    }
    out.kind = kind::CREATE_TABLE;
    out.name = parts(&create.name);
    out.flags |= flag::EXTERNAL;
    out.flags |= if_set(create.if_not_exists, flag::IF_NOT_EXISTS) | if_set(create.or_replace, flag::OR_REPLACE);
    out.format = Some(create.file_type.to_ascii_lowercase());
    out.columns = create.table_partition_cols;
    out.options = sorted(create.options);
    let defaults: Vec<(String, Expr)> = create.column_defaults.into_iter().collect();
    out.schema = Some(with_defaults(&create.schema, &defaults));
    Ok(())
}

fn dropped(kind: i32, name: &TableReference, if_exists: bool, out: &mut Statement) -> Fallible<()> {
    out.kind = kind;
    out.name = parts(name);
    out.flags |= if_set(if_exists, flag::IF_EXISTS);
    Ok(())
}

fn command(statement: LogicalStatement, out: &mut Statement) -> Fallible<()> {
    match statement {
        LogicalStatement::TransactionStart(_) => out.kind = kind::BEGIN,
        LogicalStatement::TransactionEnd(end) if end.chain => return Err(refused("AND CHAIN")),
        LogicalStatement::TransactionEnd(end) => {
            out.kind = match end.conclusion {
                TransactionConclusion::Commit => kind::COMMIT,
                TransactionConclusion::Rollback => kind::ROLLBACK,
            }
        }
        LogicalStatement::SetVariable(set) => {
            out.kind = kind::SET;
            out.columns = vec![set.variable];
            out.text = Some(set.value);
        }
        LogicalStatement::ResetVariable(reset) => {
            out.kind = kind::SET;
            out.columns = vec![reset.variable];
        }
        other => return Err(refused(other.name())),
    }
    Ok(())
}

/// DESCRIBE as rows.
fn describe(schema: &Schema) -> Fallible<LogicalPlan> {
    let row = |field: &Arc<Field>| {
        let nullable = if field.is_nullable() { "YES" } else { "NO" };
        vec![lit(field.name().as_str()), lit(field.data_type().to_string()), lit(nullable)]
    };
    let columns = LogicalPlan::describe_schema();
    let schema_of = Arc::new(DFSchema::try_from(columns)?);
    let values: Vec<Vec<Expr>> = schema.fields().iter().map(row).collect();
    Ok(LogicalPlan::Values(Values { schema: schema_of, values }))
}

/// A condition as one that is never null.
fn is_true(condition: &Expr) -> Expr {
    Expr::IsTrue(Box::new(condition.clone()))
}

/// DELETE's input is what goes; what stays is the rest.
fn staying(input: LogicalPlan) -> Fallible<LogicalPlan> {
    Ok(match input {
        LogicalPlan::Filter(filter) => {
            let stays = Expr::Not(Box::new(is_true(&filter.predicate)));
            LogicalPlan::Filter(Filter::try_new(stays, filter.input)?)
        }
        scan @ LogicalPlan::TableScan(_) => LogicalPlan::Filter(Filter::try_new(lit(false), Arc::new(scan))?),
        _ => return Err(refused("DELETE with LIMIT")),
    })
}

/// UPDATE's input are the rows that change, changed; with all the others it is the whole table.
fn changed(input: LogicalPlan) -> Fallible<LogicalPlan> {
    let LogicalPlan::Projection(projection) = input else { return Err(refused("this UPDATE")) };
    let LogicalPlan::Filter(filter) = projection.input.as_ref() else {
        return Ok(LogicalPlan::Projection(projection));
    };
    let below = Arc::clone(&filter.input);
    let mut exprs = vec![];
    for expr in &projection.expr {
        let Expr::Alias(alias) = expr else { return Err(refused("this UPDATE")) };
        let old = below.schema().iter().find(|(_, field)| *field.name() == alias.name);
        let (qualifier, field) = old.ok_or_else(|| refused("this UPDATE"))?;
        let old = Expr::Column((qualifier, field).into());
        let new = match alias.expr.as_ref() {
            same if *same == old => old,
            new => {
                let branch = (Box::new(is_true(&filter.predicate)), Box::new(new.clone()));
                Expr::Case(Case::new(None, vec![branch], Some(Box::new(old))))
            }
        };
        exprs.push(new.alias(&alias.name));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, below)?))
}
