//! One operation: who may call it, what it costs, and what a request for it must be.

use std::sync::Arc;

use portico_kernel::{Category, text_enum};
use serde_json::Value;

use crate::body::{BodyRule, RequestBody};
use crate::extensions::{Extensions, Tool};
use crate::finding::{Findings, shown};
use crate::named::Named;
use crate::parameter::{self, In, Parameter};
use crate::pointer;
use crate::schema::{Builder, Check, FieldError, Place, Schemas};
use crate::security::{Schemes, Security};

text_enum! {
    /// How an operation is called over HTTP.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Method {
        /// Reads.
        Get = "GET",
        /// Replaces.
        Put = "PUT",
        /// Makes, or does.
        Post = "POST",
        /// Removes.
        Delete = "DELETE",
        /// Changes.
        Patch = "PATCH",
    }
}

/// One operation of a service.
#[derive(Debug, Clone)]
pub struct Operation {
    /// The `operationId`.
    pub id: String,
    /// How it is called.
    pub method: Method,
    /// Where, with `{variables}`, each a whole segment.
    pub path: String,
    /// The names of the path's variables, in their order.
    pub variables: Vec<String>,
    /// What a token must hold.
    pub security: Security,
    /// What it does, in one line; empty when nothing is said.
    pub summary: String,
    /// What it does; empty when nothing is said.
    pub description: String,
    /// The tags that it has in the document.
    pub tags: Vec<String>,
    /// Is it going away?
    pub deprecated: bool,
    /// The price of a call, where the document says one.
    pub units: Option<u64>,
    /// The category of the price list: what the document says, otherwise by the method.
    pub category: Category,
    /// The plans that it is for, when it is not for all.
    pub plans: Option<Vec<String>>,
    /// What it is to assistants, if it is one of their tools.
    pub tool: Option<Tool>,
    /// Is it upgraded to a WebSocket?
    pub websocket: bool,
    /// The body that it takes, if it takes one.
    pub body: Option<RequestBody>,
    /// Where it stands in the document.
    pub pointer: String,
    pub(crate) parameters: Vec<Parameter>,
    /// How it is called by name, or why it is not.
    pub(crate) named: Result<Named, String>,
    pub(crate) schemas: Arc<Schemas>,
    /// The whole document.
    pub(crate) source: Arc<Value>,
}

/// Why a path variable may not go on to a service: one that decodes and tidies paths up would take it for another path.
/// What stands behind a semicolon is a parameter for some of them.
pub fn dots_fault(variable: &str) -> Option<&'static str> {
    let are_dots = |part: &str| matches!(part.split(';').next(), Some("." | ".."));
    if variable.is_empty() || are_dots(variable) {
        return Some("must be neither empty nor dots alone");
    }
    variable.contains(['/', '\\']).then_some("must hold no slash: a service may take it for another path")
}

impl Operation {
    /// What a token must hold and what it costs is said by others; this is whether the head of a request is as the
    /// document says: path variables and query decoded, in any order, and `header` with the values of a header, commas
    /// between them, by its name in lower case.
    pub fn check_head(
        &self,
        variables: &[(String, String)],
        query: &[(String, String)],
        header: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), Vec<FieldError>> {
        let mut check = Check::closed(&self.schemas);
        for parameter in self.parameters_in(In::Path) {
            let place = Place::parameter(&parameter.name, false);
            match variables.iter().find(|(name, _)| *name == parameter.name) {
                None => check.report(&place, "is required"),
                Some((_, text)) => match dots_fault(text) {
                    Some(fault) => check.report(&place, fault),
                    None => parameter.check(&mut check, &parameter.texts_of(text)),
                },
            }
        }
        parameter::check_query(&self.parameters_in(In::Query).collect::<Vec<_>>(), query, &mut check);
        for parameter in self.parameters_in(In::Header) {
            match header(&parameter.name.to_ascii_lowercase()) {
                Some(text) => parameter.check(&mut check, &parameter.texts_of(text.trim())),
                None if parameter.required => {
                    check.report(&Place::parameter(&parameter.name, false), "is required");
                }
                None => {}
            }
        }
        check.finish()
    }

    /// What is to be done with a body of this type.
    pub fn body_rule(&self, content_type: Option<&str>) -> BodyRule {
        self.body.as_ref().map_or(BodyRule::None, |body| body.rule(content_type))
    }

    /// Checks a body of JSON, read whole; an empty one is no body.
    pub fn check_body(&self, content_type: Option<&str>, text: &[u8]) -> Result<(), Vec<FieldError>> {
        self.body.as_ref().map_or(Ok(()), |body| body.check(content_type, text))
    }

    /// Can it be called by name, with one object of fields?
    pub fn is_callable(&self) -> bool {
        self.named.is_ok()
    }

    /// Why it cannot be called by name.
    pub fn not_callable_because(&self) -> Option<&str> {
        self.named.as_ref().err().map(String::as_str)
    }

    pub(crate) fn parameters_in(&self, place: In) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(move |parameter| parameter.place == place)
    }

    /// Gives it the compiled schemas, and its form by name, which needs all of the rest.
    pub(crate) fn finish(&mut self, document: &Arc<Value>, schemas: &Arc<Schemas>, findings: &mut Findings) {
        (self.schemas, self.source) = (Arc::clone(schemas), Arc::clone(document));
        if let Some(body) = &mut self.body {
            body.schemas = Arc::clone(schemas);
        }
        self.named = Named::of(document, self);
        if let (Some(tool), Err(reason)) = (&self.tool, &self.named) {
            let message = format!("`{}` cannot be a tool: {reason}.", tool.name);
            findings.add(pointer::join(&self.pointer, "x-portico-tool"), message);
        }
    }
}

/// What an operation is read from.
pub(crate) struct Source<'a> {
    pub(crate) document: &'a Value,
    pub(crate) schemes: &'a Schemes<'a>,
    pub(crate) path: &'a str,
    /// The path item, and where it stands.
    pub(crate) item: (&'a str, &'a Value),
}

impl Source<'_> {
    /// Reads the operation of this method.
    pub(crate) fn read(
        &self,
        method: &str,
        operation: &Value,
        builder: &mut Builder<'_>,
        findings: &mut Findings,
    ) -> Option<Operation> {
        let place = pointer::join(self.item.0, method);
        let Some(method) = Method::parse(&method.to_ascii_uppercase()) else {
            findings
                .add(place, format!("{} is not served: {}.", method.to_ascii_uppercase(), reason(method)));
            return None;
        };
        let text = |member: &str| {
            operation.get(member).and_then(Value::as_str).unwrap_or_default().trim().to_owned()
        };
        let id = text("operationId");
        if id.is_empty() {
            findings.add(
                &place,
                format!("{} {} has no `operationId`, which is its name.", method.name(), shown(self.path)),
            );
        } else if !is_name(&id) {
            findings.add(
                pointer::join(&place, "operationId"),
                format!(
                    "`{}` must be at most 100 letters, digits and `_ - . /`, a letter first.",
                    shown(&id)
                ),
            );
        }
        let shown_id = if id.is_empty() { format!("{} {}", method.name(), self.path) } else { id.clone() };
        let security = self.schemes.of(operation, &shown_id, &place, findings);
        let parameters = parameter::read(self.document, [self.item, (&place, operation)], builder, findings);
        let variables = variables(self.path);
        self.check_variables(&variables, &parameters, &place, findings);
        let body = operation.get("requestBody").map(|body| {
            RequestBody::read(self.document, body, pointer::join(&place, "requestBody"), builder, findings)
        });
        if body.as_ref().is_some_and(|body| body.required && method == Method::Get) {
            findings.add(pointer::join(&place, "requestBody"), "A GET takes no body.");
        }
        // One that need not be is left out: documents that were generated describe an empty one for every operation.
        let body = body.filter(|_| method != Method::Get);
        let extensions = Extensions::read(operation, method, &place, findings);
        let tags = operation.get("tags").and_then(Value::as_array).into_iter().flatten();
        let by_method = if method == Method::Get { Category::Read } else { Category::Write };
        Some(Operation {
            id,
            method,
            path: self.path.to_owned(),
            variables,
            security,
            summary: text("summary"),
            description: text("description"),
            tags: tags.filter_map(Value::as_str).map(str::to_owned).collect(),
            deprecated: operation.get("deprecated").and_then(Value::as_bool).unwrap_or_default(),
            units: extensions.units,
            category: extensions.category.unwrap_or(by_method),
            plans: extensions.plans,
            tool: extensions.tool,
            websocket: extensions.websocket,
            body,
            pointer: place,
            parameters,
            named: Err(String::new()),
            schemas: Arc::default(),
            source: Arc::default(),
        })
    }

    fn check_variables(
        &self,
        variables: &[String],
        parameters: &[Parameter],
        place: &str,
        findings: &mut Findings,
    ) {
        let described: Vec<_> = parameters.iter().filter(|parameter| parameter.place == In::Path).collect();
        for variable in variables {
            if !described.iter().any(|parameter| parameter.name == *variable) {
                findings.add(
                    place,
                    format!(
                        "The path variable `{}` is not described; add a parameter with `in: path`.",
                        shown(variable)
                    ),
                );
            }
        }
        for parameter in described {
            if !variables.contains(&parameter.name) {
                findings.add(
                    &parameter.pointer,
                    format!("`{}` is no variable of the path {}.", shown(&parameter.name), shown(self.path)),
                );
            }
        }
    }
}

/// Why a method is not served.
fn reason(method: &str) -> &'static str {
    match method {
        "head" => "a HEAD is answered as the GET of the same path, without its body",
        "options" => "the gateway answers for pages of other origins by itself",
        "trace" => "it would repeat what must stay secret",
        _ => "the gateway knows GET, PUT, POST, DELETE and PATCH",
    }
}

fn is_name(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
    id.len() <= 100 && id.starts_with(|first: char| first.is_ascii_alphabetic()) && id.bytes().all(plain)
}

/// The names of the variables of a path.
pub(crate) fn variables(path: &str) -> Vec<String> {
    let variable = |segment: &str| Some(segment.strip_prefix('{')?.strip_suffix('}')?.to_owned());
    path.split('/').filter_map(variable).collect()
}

/// Notes what keeps a path from being a route.
pub(crate) fn check_path(path: &str, place: &str, findings: &mut Findings) {
    let version = path.strip_prefix("/v").and_then(|rest| rest.split_once('/'));
    let is_version =
        |(number, _): (&str, &str)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if !version.is_some_and(is_version) {
        findings.add(place, format!("The path `{}` must begin with a version, such as `/v1/`.", shown(path)));
        return;
    }
    let literal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
    for segment in path.split('/').skip(1) {
        let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let fault = match name {
            Some(name) if name.is_empty() || name.contains(['{', '}']) => Some("a variable has a name"),
            Some(name) if name.starts_with('*') => Some("a variable stands for one segment"),
            None if segment.is_empty() => Some("two slashes, or one at the end"),
            None if matches!(segment, "." | "..") => Some("dots alone are no segment"),
            None if segment.contains(['{', '}']) => Some("a variable must be a whole segment"),
            None if !segment.bytes().all(literal) => Some("characters that stand in no path"),
            _ => None,
        };
        let Some(fault) = fault else { continue };
        findings.add(place, format!("The path `{}` cannot be a route: {fault}.", shown(path)));
        return;
    }
    let mut names = variables(path);
    names.sort();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        findings.add(place, format!("The path `{}` has a variable twice.", shown(path)));
    }
}
