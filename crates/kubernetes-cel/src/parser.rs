//! A recursive descent parser of CEL, with the error texts of the reference implementation: [`parse`].

pub(crate) mod macros;

use crate::ast::{Expr, Issue, Kind, Literal, NOWHERE, children};
use crate::lexer::{Token, TokenKind, tokenize};

/// The maximum nesting of expressions in the source, and of operators in the expanded tree.
const MAX_DEPTH: usize = 250;
/// The maximum number of syntax errors from which the parser recovers.
const MAX_RECOVERIES: usize = 30;
/// The maximum length of an expression in characters.
const MAX_LENGTH: usize = 100_000;

const RESERVED: [&str; 19] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
];
const ALSO_RESERVED: [&str; 2] = ["void", "while"];
const STARTS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Parses an expression and expands its macros.
pub fn parse(source: &str) -> Result<Expr, Vec<Issue>> {
    let length = source.chars().count();
    if length > MAX_LENGTH {
        let message = format!("expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}");
        return Err(vec![Issue {
            offset: NOWHERE,
            message,
        }]);
    }
    let (tokens, issues) = tokenize(source);
    let mut parser = Parser {
        source: source.chars().collect(),
        tokens,
        at: 0,
        issues,
        next_id: 0,
        depth: 0,
        recovering: false,
        recoveries: 0,
        is_stopped: false,
        too_deep: None,
        depths: vec![0],
    };
    let expr = parser.expr();
    parser.end();
    if let Some(message) = parser.too_deep {
        return Err(vec![Issue {
            offset: NOWHERE,
            message,
        }]);
    }
    if parser.issues.is_empty() {
        Ok(expr)
    } else {
        Err(parser.issues)
    }
}

struct Parser {
    source: Vec<char>,
    tokens: Vec<Token>,
    at: usize,
    issues: Vec<Issue>,
    next_id: u32,
    depth: usize,
    /// True after an error: no error is reported until a token matches again.
    recovering: bool,
    recoveries: usize,
    /// True if the rest of the source is not parsed.
    is_stopped: bool,
    /// The error of an expression that is nested too deeply. It replaces all other errors.
    too_deep: Option<String>,
    /// The depth of the tree below each node, by the id of the node.
    depths: Vec<usize>,
}

impl Parser {
    /// Creates a node. Nodes beyond the maximum depth are replaced by `null`, because other functions process the tree
    /// recursively.
    fn new_expr(&mut self, offset: usize, kind: Kind) -> Expr {
        self.next_id += 1;
        let mut expr = Expr {
            id: self.next_id,
            offset,
            kind,
        };
        let depth_of = |child: &Expr| {
            usize::try_from(child.id)
                .ok()
                .and_then(|id| self.depths.get(id))
                .map_or(1, |depth| depth + 1)
        };
        let mut depth = children(&expr).into_iter().map(depth_of).max().unwrap_or(0);
        if depth > MAX_DEPTH {
            self.refuse_depth("max recursion depth exceeded".to_owned());
            expr.kind = Kind::Literal(Literal::Null);
            depth = 0;
        }
        self.depths.push(depth);
        expr
    }

    fn refuse_depth(&mut self, message: String) {
        self.too_deep.get_or_insert(message);
        self.stop();
    }

    /// Skips the rest of the source.
    fn stop(&mut self) {
        self.is_stopped = true;
        self.at = self.tokens.len().saturating_sub(1);
    }

    fn call(&mut self, offset: usize, function: &str, args: Vec<Expr>) -> Expr {
        self.new_expr(
            offset,
            Kind::Call {
                function: function.to_owned(),
                target: None,
                args,
            },
        )
    }

    fn token(&self) -> &TokenKind {
        self.tokens
            .get(self.at)
            .map_or(&TokenKind::End, |token| &token.kind)
    }

    fn peek(&self) -> &TokenKind {
        self.tokens
            .get(self.at + 1)
            .map_or(&TokenKind::End, |token| &token.kind)
    }

    fn offset(&self) -> usize {
        self.tokens
            .get(self.at)
            .or(self.tokens.last())
            .map_or(0, |token| token.offset)
    }

    fn advance(&mut self) -> usize {
        let offset = self.offset();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        self.recovering = false;
        offset
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.token(), TokenKind::Symbol(found) if *found == symbol)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn report(&mut self, offset: usize, message: String) {
        self.issues.push(Issue { offset, message });
    }

    fn syntax_error(&mut self, message: &str) {
        if self.is_stopped {
            return;
        }
        let offset = self.offset();
        if !self.recovering {
            self.report(offset, format!("Syntax error: {message}"));
        }
        self.recovering = true;
        self.recoveries += 1;
        if self.recoveries > MAX_RECOVERIES {
            let message = format!("Syntax error: error recovery attempt limit exceeded: {MAX_RECOVERIES}");
            self.report(offset, message);
            self.stop();
        }
    }

    /// Returns the current token in the format of the parser's messages.
    fn shown(&self) -> String {
        shown(self.token())
    }

    fn starts_expression(kind: &TokenKind) -> bool {
        match kind {
            TokenKind::Symbol(symbol) => ["[", "{", "(", ".", "-", "!"].contains(symbol),
            TokenKind::Word(word) => word != "in",
            TokenKind::End => false,
            _ => true,
        }
    }

    fn expect(&mut self, symbol: &str) {
        if self.take(symbol) {
            return;
        }
        if matches!(self.peek(), TokenKind::Symbol(found) if *found == symbol) {
            let message = format!("extraneous input {} expecting '{symbol}'", self.shown());
            self.syntax_error(&message);
            self.advance();
            self.advance();
            return;
        }
        let message = match symbol {
            // The next token cannot follow this symbol either, so more than the symbol is missing.
            ":" if !Self::starts_expression(self.token()) => {
                format!("mismatched input {} expecting ':'", self.shown())
            }
            _ => format!("missing '{symbol}' at {}", self.shown()),
        };
        self.syntax_error(&message);
    }

    /// Parses the end of a list or map, which may follow a comma.
    fn expect_end(&mut self, symbol: &str) {
        if self.take(symbol) {
            return;
        }
        let is_next = matches!(self.peek(), TokenKind::Symbol(found) if *found == symbol || *found == ",");
        let kind = if is_next { "extraneous" } else { "mismatched" };
        let message = format!("{kind} input {} expecting {{'{symbol}', ','}}", self.shown());
        self.syntax_error(&message);
        if is_next {
            self.advance();
            self.take(symbol);
        }
    }

    fn end(&mut self) {
        if matches!(self.token(), TokenKind::End) {
            return;
        }
        let kind = if matches!(self.peek(), TokenKind::End) {
            "extraneous"
        } else {
            "mismatched"
        };
        let message = format!("{kind} input {} expecting <EOF>", self.shown());
        self.syntax_error(&message);
    }

    fn failed(&mut self) -> Expr {
        let offset = self.offset();
        self.new_expr(offset, Kind::Literal(Literal::Null))
    }

    /// Parses `a ? b : c`.
    fn expr(&mut self) -> Expr {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.refuse_depth(format!("expression recursion limit exceeded: {MAX_DEPTH}"));
            self.depth -= 1;
            return self.failed();
        }
        let condition = self.chain(0);
        let expr = if self.is("?") {
            let offset = self.advance();
            let yes = self.chain(0);
            self.expect(":");
            let no = self.expr();
            self.call(offset, "_?_:_", vec![condition, yes, no])
        } else {
            condition
        };
        self.depth -= 1;
        expr
    }

    /// Parses binary operators by precedence climbing. Conjunctions and disjunctions become balanced trees.
    fn chain(&mut self, loosest: usize) -> Expr {
        let mut left = self.unary();
        while let Some((level, function)) = self.operator().filter(|(level, _)| *level >= loosest) {
            if level <= 1 {
                left = self.logical(left, level, function);
                continue;
            }
            let offset = self.advance();
            let right = self.chain(level + 1);
            left = self.call(offset, function, vec![left, right]);
        }
        left
    }

    fn operator(&self) -> Option<(usize, &'static str)> {
        const LEVELS: [&[(&str, &str)]; 5] = [
            &[("||", "_||_")],
            &[("&&", "_&&_")],
            &[
                ("<", "_<_"),
                ("<=", "_<=_"),
                (">", "_>_"),
                (">=", "_>=_"),
                ("==", "_==_"),
                ("!=", "_!=_"),
                ("in", "@in"),
            ],
            &[("+", "_+_"), ("-", "_-_")],
            &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
        ];
        let symbol = match self.token() {
            TokenKind::Symbol(symbol) => *symbol,
            TokenKind::Word(word) if word == "in" => "in",
            _ => return None,
        };
        LEVELS.iter().enumerate().find_map(|(level, operators)| {
            let (_, function) = operators.iter().find(|(found, _)| *found == symbol)?;
            Some((level, *function))
        })
    }

    fn logical(&mut self, first: Expr, level: usize, function: &'static str) -> Expr {
        let mut operands = vec![first];
        let mut offsets = Vec::new();
        while self.operator() == Some((level, function)) {
            offsets.push(self.advance());
            operands.push(self.chain(level + 1));
        }
        self.balanced(operands, &offsets, function)
    }

    fn balanced(&mut self, mut operands: Vec<Expr>, offsets: &[usize], function: &str) -> Expr {
        if operands.len() <= 1 {
            return operands.pop().unwrap_or_else(|| self.failed());
        }
        let middle = operands.len() / 2;
        let right = operands.split_off(middle);
        let offset = offsets.get(middle - 1).copied().unwrap_or(0);
        let left = self.balanced(operands, offsets.get(..middle - 1).unwrap_or_default(), function);
        let right = self.balanced(right, offsets.get(middle..).unwrap_or_default(), function);
        self.call(offset, function, vec![left, right])
    }

    fn unary(&mut self) -> Expr {
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            if !self.is(symbol) {
                continue;
            }
            if symbol == "-"
                && let Some(literal) = self.negative_literal()
            {
                return self.member(literal);
            }
            let offset = self.offset();
            let mut count = 0;
            while self.take(symbol) {
                count += 1;
            }
            let operand = self.primary();
            let operand = self.member(operand);
            // Two operators in a row cancel each other.
            return if count % 2 == 0 {
                operand
            } else {
                self.call(offset, function, vec![operand])
            };
        }
        let primary = self.primary();
        self.member(primary)
    }

    fn negative_literal(&mut self) -> Option<Expr> {
        let literal = match self.peek() {
            TokenKind::Int(text) => integer(text, true).map(Literal::Int),
            TokenKind::Float(text) => text.parse().ok().map(|value: f64| Literal::Double(-value)),
            _ => return None,
        };
        let offset = self.advance();
        self.advance();
        let Some(literal) = literal else {
            self.report(offset, "invalid int literal".to_owned());
            return Some(self.failed());
        };
        Some(self.new_expr(offset, Kind::Literal(literal)))
    }

    fn member(&mut self, mut target: Expr) -> Expr {
        loop {
            if self.is(".") {
                match self.selection(target) {
                    Ok(next) => target = next,
                    Err(target) => return target,
                }
            } else if self.is("[") {
                let offset = self.advance();
                let function = if self.take("?") { "_[?_]" } else { "_[_]" };
                let index = self.expr();
                self.expect("]");
                target = self.call(offset, function, vec![target, index]);
            } else if self.is("{")
                && let Some(name) = target.dotted_name()
            {
                target = self.structure(name);
            } else {
                return target;
            }
        }
    }

    /// Parses a field or method after a dot. The error contains the target if the name is missing.
    fn selection(&mut self, target: Expr) -> Result<Expr, Expr> {
        let dot = self.advance();
        let optional = self.take("?");
        let field_offset = self.offset();
        let field = match self.token().clone() {
            TokenKind::Word(word) if word != "in" && !["true", "false", "null"].contains(&word.as_str()) => {
                word
            }
            TokenKind::Escaped(name) => name,
            other => {
                let text = shown(&other);
                let text = if other == TokenKind::End {
                    ""
                } else {
                    text.trim_matches('\'')
                };
                let between = self.source.get(dot..field_offset).unwrap_or_default();
                let between: String = between.iter().collect();
                let message = format!("no viable alternative at input '{between}{text}'");
                self.syntax_error(&message);
                return Err(target);
            }
        };
        self.advance();
        if optional {
            let name = self.new_expr(field_offset, Kind::Literal(Literal::String(field.into())));
            return Ok(self.call(dot, "_?._", vec![target, name]));
        }
        if !self.is("(") {
            let kind = Kind::Select {
                operand: Box::new(target),
                field,
                test_only: false,
            };
            return Ok(self.new_expr(dot, kind));
        }
        let offset = self.advance();
        let args = self.arguments(")");
        self.expect(")");
        Ok(self.macro_or_call(offset, field, Some(target), args))
    }

    fn arguments(&mut self, close: &str) -> Vec<Expr> {
        let mut args = Vec::new();
        if self.is(close) {
            return args;
        }
        if !Self::starts_expression(self.token()) {
            let closes = |kind: &TokenKind| matches!(kind, TokenKind::Symbol(symbol) if *symbol == close);
            let extraneous = Self::starts_expression(self.peek()) || closes(self.peek());
            let kind = if extraneous { "extraneous" } else { "mismatched" };
            let wanted = STARTS.replacen("'(', ", &format!("'(', '{close}', "), 1);
            self.syntax_error(&format!("{kind} input {} expecting {wanted}", self.shown()));
            if !extraneous {
                return args;
            }
            self.advance();
            if self.is(close) {
                return args;
            }
        }
        loop {
            args.push(self.expr());
            if !self.take(",") {
                return args;
            }
        }
    }

    fn primary(&mut self) -> Expr {
        let offset = self.offset();
        match self.token().clone() {
            TokenKind::Symbol("(") => {
                self.advance();
                let inner = self.expr();
                self.expect(")");
                inner
            }
            TokenKind::Symbol("[") => self.list(),
            TokenKind::Symbol("{") => self.map(),
            TokenKind::Symbol(".") if matches!(self.peek(), TokenKind::Word(_)) => {
                self.advance();
                self.word()
            }
            TokenKind::Word(word) if word != "in" => self.word(),
            TokenKind::Int(text) => self.literal(integer(&text, false).map(Literal::Int), "int"),
            TokenKind::Uint(text) => self.literal(unsigned(&text).map(Literal::Uint), "uint"),
            TokenKind::Float(text) => {
                let value = text.parse().ok().filter(|value: &f64| value.is_finite());
                self.literal(value.map(Literal::Double), "double")
            }
            TokenKind::String(text) => self.literal(Some(Literal::String(text.into())), "string"),
            TokenKind::Bytes(bytes) => self.literal(Some(Literal::Bytes(bytes.into())), "bytes"),
            _ => self.no_expression(offset),
        }
    }

    fn no_expression(&mut self, _offset: usize) -> Expr {
        if Self::starts_expression(self.peek()) {
            let message = format!("extraneous input {} expecting {STARTS}", self.shown());
            self.syntax_error(&message);
            self.advance();
            // The recursion is bounded by the number of recoveries.
            return self.unary();
        }
        let message = format!("mismatched input {} expecting {STARTS}", self.shown());
        self.syntax_error(&message);
        self.failed()
    }

    fn literal(&mut self, literal: Option<Literal>, kind: &str) -> Expr {
        let offset = self.advance();
        match literal {
            Some(literal) => self.new_expr(offset, Kind::Literal(literal)),
            None => {
                self.report(offset, format!("invalid {kind} literal"));
                self.failed()
            }
        }
    }

    fn word(&mut self) -> Expr {
        let TokenKind::Word(word) = self.token().clone() else {
            return self.failed();
        };
        let offset = self.advance();
        match word.as_str() {
            "true" => return self.new_expr(offset, Kind::Literal(Literal::Bool(true))),
            "false" => return self.new_expr(offset, Kind::Literal(Literal::Bool(false))),
            "null" => return self.new_expr(offset, Kind::Literal(Literal::Null)),
            _ => {}
        }
        if RESERVED.contains(&word.as_str()) || ALSO_RESERVED.contains(&word.as_str()) {
            self.report(offset, format!("reserved identifier: {word}"));
        }
        if self.is("(") {
            let open = self.advance();
            let args = self.arguments(")");
            self.expect(")");
            return self.macro_or_call(open, word, None, args);
        }
        self.new_expr(offset, Kind::Ident(word))
    }

    fn list(&mut self) -> Expr {
        let offset = self.advance();
        let mut items = Vec::new();
        while !self.is("]") {
            let optional = self.take("?");
            items.push((self.expr(), optional));
            if !self.take(",") {
                break;
            }
        }
        self.expect_end("]");
        self.new_expr(offset, Kind::List(items))
    }

    fn map(&mut self) -> Expr {
        let offset = self.advance();
        let mut entries = Vec::new();
        while !self.is("}") {
            let optional = self.take("?");
            let key = self.expr();
            self.expect(":");
            entries.push((key, self.expr(), optional));
            if !self.take(",") {
                break;
            }
        }
        self.expect_end("}");
        self.new_expr(offset, Kind::Map(entries))
    }

    fn structure(&mut self, name: String) -> Expr {
        let offset = self.advance();
        let mut fields = Vec::new();
        loop {
            let optional = self.take("?");
            let (TokenKind::Word(field) | TokenKind::Escaped(field)) = self.token().clone() else {
                break;
            };
            self.advance();
            self.expect(":");
            fields.push((field, self.expr(), optional));
            if !self.take(",") {
                break;
            }
        }
        self.expect("}");
        self.new_expr(offset, Kind::Struct(name, fields))
    }
}

fn shown(kind: &TokenKind) -> String {
    let text = match kind {
        TokenKind::Symbol(symbol) => (*symbol).to_owned(),
        TokenKind::Word(word) => word.clone(),
        TokenKind::Escaped(name) => format!("`{name}`"),
        TokenKind::Int(text) | TokenKind::Float(text) => text.clone(),
        TokenKind::Uint(text) => format!("{text}u"),
        TokenKind::String(text) => format!("'{text}'"),
        TokenKind::Bytes(bytes) => format!("b'{}'", String::from_utf8_lossy(bytes)),
        TokenKind::End => "<EOF>".to_owned(),
    };
    format!("'{text}'")
}

fn integer(text: &str, negative: bool) -> Option<i64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let value = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -value } else { value }).ok()
}

fn unsigned(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
