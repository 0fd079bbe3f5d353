//! What an operation is to assistants: a tool.

use portico_kernel::Category;

use crate::{Access, Method, Spec};

/// What a tool has beside its operation. What it does, takes and answers is the operation's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// `area_verb_noun`.
    pub name: &'static str,
    /// The name for people.
    pub title: &'static str,
    /// When to use it, for a model that chooses among tools.
    pub hint: &'static str,
    /// Is what it does lost for good?
    pub irreversible: bool,
}

impl Tool {
    /// The longest name: assistants put their own words before it, and have 64 characters for both.
    const NAME_CHARACTERS_MAX: usize = 40;

    /// A tool of that name.
    pub const fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title, hint: "", irreversible: false }
    }

    /// Says when to use it, or what to know before.
    #[must_use]
    pub const fn hint(mut self, hint: &'static str) -> Self {
        self.hint = hint;
        self
    }

    /// What it does is lost for good, though it removes nothing by its method.
    #[must_use]
    pub const fn irreversible(mut self) -> Self {
        self.irreversible = true;
        self
    }
}

impl Spec {
    /// Makes it a tool of assistants.
    #[must_use]
    pub const fn tool(mut self, tool: Tool) -> Self {
        self.tool = Some(Tool {
            // What is removed is gone.
            irreversible: tool.irreversible || matches!(self.method, Method::Delete),
            ..tool
        });
        self
    }

    /// Does it change nothing?
    pub const fn only_reads(&self) -> bool {
        matches!(self.method, Method::Get)
    }

    /// Is doing it twice the same as doing it once?
    pub const fn is_idempotent(&self) -> bool {
        !matches!(self.method, Method::Post)
    }

    /// Does it reach beyond the platform?
    pub const fn reaches_out(&self) -> bool {
        matches!(self.category, Some(Category::Send | Category::Check | Category::Action))
    }

    /// The scopes that its tool asks for: by what it does, whatever its area asks for elsewhere.
    pub const fn tool_scopes(&self) -> &'static [&'static str] {
        match self.category {
            Some(Category::Generate | Category::Narrate) => &["mcp:generate"],
            Some(Category::Action) => &["mcp:write", "connections:use"],
            _ if self.only_reads() => &["mcp:read"],
            _ => &["mcp:write"],
        }
    }

    /// What keeps it from being the tool that it says it is.
    pub(crate) fn tool_error(&self) -> Option<&'static str> {
        let tool = self.tool?;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        if tool.name.len() > Tool::NAME_CHARACTERS_MAX || !tool.name.bytes().all(plain) {
            return Some("is a tool whose name is not at most 40 letters and underscores");
        }
        if matches!(self.access, Access::Open | Access::Person) {
            return Some("is a tool, and not for tokens");
        }
        None
    }
}
