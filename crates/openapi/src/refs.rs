//! The references of a document: each leads somewhere within it, to what is meant, and ends.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::finding::{Findings, shown};
use crate::model::{self, Kind};
use crate::pointer;

/// How many references may lead from one to the next, where those that form a ring count once.
const LEVELS_MAX: usize = 8;

/// Notes every reference that does not lead where it must; where all do, what they lead to together.
pub(crate) fn check(document: &Value, findings: &mut Findings) {
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    let mut whole = true;
    model::walk(document, Kind::Document, &mut String::new(), &mut |kind, place, value| {
        let Some(reference) = value.get("$ref") else { return true };
        // Of a schema, that is said where it is no JSON Schema.
        if kind == Kind::Schema && !reference.is_string() {
            whole = false;
            return true;
        }
        match leads(document, kind, reference) {
            Ok(target) => {
                kinds.insert(target, kind);
            }
            Err(fault) => {
                whole = false;
                findings.add(pointer::join(place, "$ref"), fault);
            }
        }
        true
    });
    if whole {
        let graph = Graph::of(document, &kinds);
        graph.check_rings(findings);
        graph.check_levels(document, findings);
    }
}

fn leads(document: &Value, kind: Kind, reference: &Value) -> Result<String, String> {
    let Some(reference) = reference.as_str() else { return Err("A reference must be a string.".to_owned()) };
    let name = shown(reference);
    if !reference.starts_with('#') {
        return Err(format!(
            "`{name}` leads out of the document, and nothing is fetched; put what it refers to into the components."
        ));
    }
    let Some(target) = pointer::of_reference(reference) else {
        return Err(format!("`{name}` is no JSON pointer, such as `#/components/schemas/Invoice`."));
    };
    let Some(found) = document.pointer(&target) else { return Err(format!("`{name}` leads to nothing.")) };
    let is_one = found.is_object() || (kind == Kind::Schema && found.is_boolean());
    if !is_one {
        return Err(format!("`{name}` leads to something that is not described by an object."));
    }
    match model::kind_at(&target) {
        Some(there) if there != kind => {
            Err(format!("`{name}` leads to a {there:?}, where a {kind:?} must stand."))
        }
        _ => Ok(target),
    }
}

/// What is referred to, and what that refers to in turn.
struct Graph {
    pointers: Vec<String>,
    /// Everything that is referred to from within.
    inner: Vec<Vec<usize>>,
    /// What is about the same value.
    in_place: Vec<Vec<usize>>,
}

impl Graph {
    fn of(document: &Value, kinds: &BTreeMap<String, Kind>) -> Self {
        let pointers: Vec<String> = kinds.keys().cloned().collect();
        let indices: HashMap<&str, usize> =
            pointers.iter().enumerate().map(|(index, pointer)| (pointer.as_str(), index)).collect();
        let mut graph = Self { pointers: Vec::new(), inner: Vec::new(), in_place: Vec::new() };
        for (pointer, kind) in kinds {
            let Some(value) = document.pointer(pointer) else { continue };
            let mut inner = Vec::new();
            model::walk(value, *kind, &mut String::new(), &mut |_, _, value| {
                inner.extend(index_of(&indices, value));
                true
            });
            let mut in_place = Vec::new();
            same_value(value, &indices, &mut in_place);
            graph.inner.push(inner);
            graph.in_place.push(in_place);
        }
        drop(indices);
        graph.pointers = pointers;
        graph
    }

    /// A schema that needs itself to be checked, with nothing in between, would never end.
    fn check_rings(&self, findings: &mut Findings) {
        for ring in components(&self.in_place) {
            let first = ring[0];
            if ring.len() > 1 || self.in_place[first].contains(&first) {
                let mut names: Vec<_> =
                    ring.iter().map(|index| format!("#{}", self.pointers[*index])).collect();
                names.sort();
                let names = shown(&names.join(", "));
                let message =
                    format!("These references lead back to themselves with nothing in between: {names}.");
                findings.add(&self.pointers[first], message);
            }
        }
    }

    fn check_levels(&self, document: &Value, findings: &mut Findings) {
        // Components come with those first that others lead to.
        let components = components(&self.inner);
        let mut component_of = vec![0; self.pointers.len()];
        for (number, component) in components.iter().enumerate() {
            for index in component {
                component_of[*index] = number;
            }
        }
        let mut levels = vec![0; components.len()];
        for (number, component) in components.iter().enumerate() {
            let inner = component.iter().flat_map(|index| &self.inner[*index]);
            let others = inner.map(|index| component_of[*index]).filter(|other| *other != number);
            levels[number] = 1 + others.map(|other| levels[other]).max().unwrap_or_default();
        }
        for (index, pointer) in self.pointers.iter().enumerate() {
            let level = levels[component_of[index]];
            // Named once, where it first gets too deep.
            if level == LEVELS_MAX + 1 && document.pointer(pointer).is_some() {
                findings.add(pointer, format!(
                    "References lead from here through more than {LEVELS_MAX} levels; a schema that refers to itself counts once."
                ));
            }
        }
    }
}

fn index_of(indices: &HashMap<&str, usize>, value: &Value) -> Option<usize> {
    let pointer = pointer::of_reference(value.get("$ref")?.as_str()?)?;
    indices.get(pointer.as_str()).copied()
}

/// The references that are about the same value as this schema; of any other object, its own.
fn same_value(value: &Value, indices: &HashMap<&str, usize>, found: &mut Vec<usize>) {
    found.extend(index_of(indices, value));
    for (keyword, inner) in
        value.as_object().into_iter().flatten().filter(|(keyword, _)| model::is_in_place(keyword))
    {
        match inner {
            Value::Array(items) => items.iter().for_each(|inner| same_value(inner, indices, found)),
            Value::Object(named) if keyword == "dependentSchemas" => {
                named.values().for_each(|inner| same_value(inner, indices, found));
            }
            inner => same_value(inner, indices, found),
        }
    }
}

/// The strongly connected components of a graph, those first that others lead to (Tarjan, without recursion: a document
/// decides how long a way is).
fn components(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let mut order = vec![NEW; edges.len()];
    let mut low = vec![0; edges.len()];
    let mut open = vec![false; edges.len()];
    let (mut stack, mut found, mut next) = (Vec::new(), Vec::new(), 0);
    for root in 0..edges.len() {
        if order[root] != NEW {
            continue;
        }
        let mut way = vec![(root, 0)];
        while let Some((node, edge)) = way.pop() {
            if edge == 0 {
                (order[node], low[node], open[node]) = (next, next, true);
                next += 1;
                stack.push(node);
            }
            if let Some(to) = edges[node].get(edge).copied() {
                way.push((node, edge + 1));
                if order[to] == NEW {
                    way.push((to, 0));
                } else if open[to] {
                    low[node] = low[node].min(order[to]);
                }
                continue;
            }
            if low[node] == order[node] {
                let start = stack.iter().rposition(|other| *other == node).unwrap_or_default();
                let component = stack.split_off(start);
                for node in &component {
                    open[*node] = false;
                }
                found.push(component);
            }
            if let Some((outer, _)) = way.last().copied() {
                low[outer] = low[outer].min(low[node]);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_come_in_the_order_of_what_leads_to_them() {
        // 0 -> 1 -> 2 -> 1, 2 -> 3, 4 -> 4
        let edges = vec![vec![1], vec![2], vec![1, 3], vec![], vec![4]];
        let mut found = components(&edges);
        for component in &mut found {
            component.sort_unstable();
        }
        assert_eq!(found, [vec![3], vec![1, 2], vec![0], vec![4]]);
    }

    #[test]
    fn a_long_way_needs_no_stack() {
        let mut edges: Vec<_> = (1..200_000).map(|to| vec![to]).collect();
        edges.push(vec![]);
        assert_eq!(components(&edges).len(), 200_000);
    }
}
