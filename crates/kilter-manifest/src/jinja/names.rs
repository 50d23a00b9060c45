//! The names in a template.

use std::ops::Range;

use ecow::{EcoString, eco_format};
use minijinja::machinery::ast::{BinOpKind, Call, CallArg, Expr, Macro, Stmt};
use minijinja::machinery::{Span, parse};
use minijinja::value::ValueKind;
use rustc_hash::FxHashSet;

use super::{JinjaError, jinja_error, syntax};

/// The names in a template.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) used: Vec<UsedName>,
    pub(crate) templates: Vec<UsedTemplate>,
    /// Names that the template assigns, each with its first place: loop variables, macros and so on.
    pub(crate) assigned: Vec<(EcoString, Range<usize>)>,
    pub(crate) filters: Vec<(EcoString, Range<usize>)>,
    pub(crate) tests: Vec<(EcoString, Range<usize>)>,
}

/// A use of a name.
#[derive(Debug)]
pub(crate) struct UsedName {
    pub(crate) root: EcoString,
    /// Constant steps that follow: `os`, `family` in `facts.os.family`.
    pub(crate) steps: Vec<EcoString>,
    pub(crate) at: Range<usize>,
    /// True if the engine may skip it.
    pub(crate) is_conditional: bool,
    /// True if it may be undefined there: `x is defined`, `x|default(…)`.
    pub(crate) is_guarded: bool,
    /// True if it is called.
    pub(crate) is_called: bool,
}

/// A template that another one includes, imports or extends.
#[derive(Debug)]
pub(crate) struct UsedTemplate {
    /// Its name; none if it is no literal text.
    pub(crate) name: Option<EcoString>,
    pub(crate) at: Range<usize>,
    pub(crate) is_conditional: bool,
    /// True if the template may be missing (`ignore missing`).
    pub(crate) may_be_missing: bool,
}

/// Reads the names in a template. Names in a conditional include are conditional.
///
/// # Errors
/// The syntax error.
pub(crate) fn read(text: &str, is_conditional: bool) -> Result<Names, JinjaError> {
    let tree = parse(text, "", syntax()).map_err(|error| jinja_error(&error, 0, text))?;
    let mut reader =
        NameReader { names: Names::default(), seen: FxHashSet::default(), depth: u32::from(is_conditional) };
    reader.statement(&tree);
    Ok(reader.names)
}

struct NameReader {
    names: Names,
    seen: FxHashSet<EcoString>,
    /// Number of enclosing branches that the engine may skip.
    depth: u32,
}

fn range(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}

impl NameReader {
    fn conditionally(&mut self, body: impl FnOnce(&mut NameReader)) {
        self.depth += 1;
        body(self);
        self.depth -= 1;
    }

    fn statements(&mut self, all: &[Stmt<'_>]) {
        all.iter().for_each(|one| self.statement(one));
    }

    fn statement(&mut self, statement: &Stmt<'_>) {
        match statement {
            Stmt::Template(template) => self.statements(&template.children),
            Stmt::EmitExpr(emit) => self.expr(&emit.expr),
            Stmt::EmitRaw(_) => {}
            Stmt::ForLoop(each) => {
                self.expr(&each.iter);
                self.assign(&each.target);
                self.assign_name("loop", range(each.span()));
                self.conditionally(|reader| {
                    each.filter_expr.iter().for_each(|filter| reader.expr(filter));
                    reader.statements(&each.body);
                    reader.statements(&each.else_body);
                });
            }
            Stmt::IfCond(choice) => {
                self.expr(&choice.expr);
                self.conditionally(|reader| {
                    reader.statements(&choice.true_body);
                    reader.statements(&choice.false_body);
                });
            }
            Stmt::WithBlock(with) => {
                for (target, value) in &with.assignments {
                    self.assign(target);
                    self.expr(value);
                }
                self.statements(&with.body);
            }
            Stmt::Set(set) => {
                self.assign(&set.target);
                self.expr(&set.expr);
            }
            Stmt::SetBlock(set) => {
                self.assign(&set.target);
                set.filter.iter().for_each(|filter| self.expr(filter));
                self.statements(&set.body);
            }
            Stmt::AutoEscape(escape) => self.statements(&escape.body),
            Stmt::FilterBlock(filter) => {
                self.expr(&filter.filter);
                self.statements(&filter.body);
            }
            Stmt::Block(block) => self.statements(&block.body),
            Stmt::Import(import) => {
                self.template(&import.expr, false);
                self.assign(&import.name);
            }
            Stmt::FromImport(import) => {
                self.template(&import.expr, false);
                import.names.iter().for_each(|(name, alias)| self.assign(alias.as_ref().unwrap_or(name)));
            }
            Stmt::Extends(extends) => self.template(&extends.name, false),
            Stmt::Include(include) => self.template(&include.name, include.ignore_missing),
            Stmt::Macro(one) => self.macro_of(one, range(one.span())),
            Stmt::CallBlock(block) => {
                self.call(&block.call);
                self.macro_of(&block.macro_decl, range(block.macro_decl.span()));
            }
            Stmt::Do(act) => self.call(&act.call),
        }
    }

    fn macro_of(&mut self, one: &Macro<'_>, at: Range<usize>) {
        self.assign_name(one.name, at.clone());
        self.assign_name("caller", at);
        one.args.iter().for_each(|argument| self.assign(argument));
        self.conditionally(|reader| {
            one.defaults.iter().for_each(|value| reader.expr(value));
            reader.statements(&one.body);
        });
    }

    fn template(&mut self, name: &Expr<'_>, may_be_missing: bool) {
        let text = constant(name);
        if text.is_none() {
            self.expr(name);
        }
        let is_conditional = self.depth > 0;
        self.names.templates.push(UsedTemplate { name: text, at: range(name.span()), is_conditional, may_be_missing });
    }

    fn assign(&mut self, target: &Expr<'_>) {
        match target {
            Expr::Var(name) => self.assign_name(name.id, range(name.span())),
            Expr::List(list) => list.items.iter().for_each(|item| self.assign(item)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.assign(item)),
            // An attribute of a namespace.
            other => self.expr(other),
        }
    }

    fn assign_name(&mut self, name: &str, at: Range<usize>) {
        if self.seen.insert(name.into()) {
            self.names.assigned.push((name.into(), at));
        }
    }

    fn exprs(&mut self, all: &[Expr<'_>]) {
        all.iter().for_each(|one| self.expr(one));
    }

    fn arguments(&mut self, all: &[CallArg<'_>]) {
        for argument in all {
            match argument {
                CallArg::Pos(value)
                | CallArg::Kwarg(_, value)
                | CallArg::PosSplat(value)
                | CallArg::KwargSplat(value) => self.expr(value),
            }
        }
    }

    fn call(&mut self, call: &Call<'_>) {
        match &call.expr {
            Expr::Var(name) => self.name(name.id, Vec::new(), range(name.span()), false, true),
            // `self.block()` renders a block; `x.method()` calls a method of the value of x.
            Expr::GetAttr(method) if matches!(&method.expr, Expr::Var(name) if name.id == "self") => {}
            Expr::GetAttr(method) => self.expr(&method.expr),
            other => self.expr(other),
        }
        self.arguments(&call.args);
    }

    fn expr(&mut self, expr: &Expr<'_>) {
        if self.chain(expr, false) {
            return;
        }
        match expr {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(slice) => {
                self.expr(&slice.expr);
                [&slice.start, &slice.stop, &slice.step].into_iter().flatten().for_each(|part| self.expr(part));
            }
            Expr::UnaryOp(operation) => self.expr(&operation.expr),
            Expr::BinOp(operation) => {
                self.expr(&operation.left);
                match operation.op {
                    BinOpKind::ScAnd | BinOpKind::ScOr => self.conditionally(|reader| reader.expr(&operation.right)),
                    _ => self.expr(&operation.right),
                }
            }
            Expr::Compare(compare) => {
                self.expr(&compare.expr);
                compare.ops.iter().for_each(|operand| self.expr(&operand.expr));
            }
            Expr::IfExpr(choice) => {
                self.expr(&choice.test_expr);
                self.conditionally(|reader| {
                    reader.expr(&choice.true_expr);
                    choice.false_expr.iter().for_each(|value| reader.expr(value));
                });
            }
            Expr::Filter(filter) => {
                self.names.filters.push((filter.name.into(), range(filter.span())));
                if let Some(value) = &filter.expr {
                    let is_default = matches!(filter.name, "default" | "d");
                    if !(is_default && self.chain(value, true)) {
                        self.expr(value);
                    }
                }
                self.arguments(&filter.args);
            }
            Expr::Test(test) => {
                self.names.tests.push((test.name.into(), range(test.span())));
                let is_guard = matches!(test.name, "defined" | "undefined");
                if !(is_guard && self.chain(&test.expr, true)) {
                    self.expr(&test.expr);
                }
                self.arguments(&test.args);
            }
            Expr::GetAttr(get) => self.expr(&get.expr),
            Expr::GetItem(get) => {
                self.expr(&get.expr);
                self.expr(&get.subscript_expr);
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.exprs(&list.items),
            Expr::Tuple(tuple) => self.exprs(&tuple.items),
            Expr::Map(map) => {
                self.exprs(&map.keys);
                self.exprs(&map.values);
            }
        }
    }

    /// Records a name with constant steps, such as `vars.port` or `exec["x"].stdout`. Returns false if the expression
    /// is something else.
    fn chain(&mut self, expr: &Expr<'_>, is_guarded: bool) -> bool {
        let mut steps = Vec::new();
        let mut next = expr;
        let end = range(expr.span()).end;
        loop {
            match next {
                Expr::Var(name) => {
                    steps.reverse();
                    let at = range(name.span()).start..end;
                    self.name(name.id, steps, at, is_guarded, false);
                    return true;
                }
                Expr::GetAttr(get) => {
                    steps.push(EcoString::from(get.name));
                    next = &get.expr;
                }
                Expr::GetItem(get) => {
                    let Some(step) = constant_step(&get.subscript_expr) else { return false };
                    steps.push(step);
                    next = &get.expr;
                }
                _ => return false,
            }
        }
    }

    fn name(&mut self, root: &str, steps: Vec<EcoString>, at: Range<usize>, is_guarded: bool, is_called: bool) {
        let is_conditional = self.depth > 0;
        self.names.used.push(UsedName { root: root.into(), steps, at, is_conditional, is_guarded, is_called });
    }
}

fn constant(expr: &Expr<'_>) -> Option<EcoString> {
    match expr {
        Expr::Const(constant) => constant.value.as_str().map(EcoString::from),
        _ => None,
    }
}

/// Returns a constant key or index.
fn constant_step(expr: &Expr<'_>) -> Option<EcoString> {
    let Expr::Const(constant) = expr else { return None };
    match constant.value.kind() {
        ValueKind::String => constant.value.as_str().map(EcoString::from),
        ValueKind::Number => Some(eco_format!("{}", constant.value)),
        _ => None,
    }
}
