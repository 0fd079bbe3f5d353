//! Reads a document and says what became of it: `cargo run -p portico-openapi --example read FILE [OLD]`.

use std::process::ExitCode;

use portico_openapi::{Document, Security, diff};

fn main() -> ExitCode {
    let mut files = std::env::args().skip(1);
    let (Some(file), old) = (files.next(), files.next()) else {
        eprintln!("usage: read FILE [OLD]");
        return ExitCode::FAILURE;
    };
    let Some(document) = read(&file) else { return ExitCode::FAILURE };
    let Document { title, version, operations, scopes, events, .. } = &document;
    println!(
        "{title} {version}: {} operations, {} scopes, {} event types",
        operations.len(),
        scopes.len(),
        events.len()
    );
    for operation in operations {
        let security = match &operation.security {
            Security::Open => "open".to_owned(),
            Security::AnyOf(lists) => {
                lists.iter().map(|scopes| scopes.join(" ")).collect::<Vec<_>>().join(" or ")
            }
        };
        let named = operation.not_callable_because().unwrap_or("by name");
        let (method, price) = (operation.method.name(), operation.price());
        println!("{method:6} {} [{security}] {price} units, {named}", operation.path);
    }
    if let Some(old) = old.and_then(|old| read(&old)) {
        for change in diff(&old, &document) {
            println!("{change}");
        }
    }
    ExitCode::SUCCESS
}

fn read(file: &str) -> Option<Document> {
    let text = std::fs::read(file).map_err(|error| eprintln!("{file}: {error}")).ok()?;
    match Document::read(&text, file) {
        Ok(document) => Some(document),
        Err(findings) => {
            for finding in findings.iter().take(200) {
                eprintln!("{finding}");
            }
            eprintln!("{} findings", findings.len());
            None
        }
    }
}
