//! The rules of the house that a compiler does not keep.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use portico::{Areas, Environment};

use crate::root;

/// The dependencies of each crate, those for tests left out.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    crates
        .map(|path| {
            let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
            let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
            let section = section.split("\n[").next().unwrap();
            let names =
                section.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).map(str::to_owned);
            (
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                names.filter(|name| !name.is_empty()).collect(),
            )
        })
        .collect()
}

/// The names of the areas; the crate of an area has its name.
fn areas() -> Vec<&'static str> {
    let areas = Areas::new(&Environment::default(), false).unwrap();
    areas.registry("http://api.test", Vec::new()).unwrap().areas().to_vec()
}

#[tokio::test]
async fn crates_depend_downwards_only() {
    let areas = areas();
    let level = |name: &str| match name {
        "kernel" => 0,
        "store" | "egress" | "mqtt" | "openapi" | "connectors" | "webauthn" => 1,
        "blobs" | "dns" | "upstream" => 2,
        "engine" => 3,
        area if areas.contains(&area) => 4,
        "gateway" => 5,
        "portico" => 6,
        "testkit" => 7,
        other => panic!("{other} has no place yet: give it one here"),
    };
    for (name, depends) in dependencies() {
        for other in depends
            .iter()
            .filter_map(|other| other.strip_prefix("portico-").or((other == "portico").then_some("portico")))
        {
            assert!(level(other) < level(&name), "{name} must not depend on {other}");
        }
    }
}

#[test]
fn one_crate_names_the_database_and_one_the_web() {
    for (name, depends) in dependencies() {
        let has = |other: &str| depends.iter().any(|depend| depend == other);
        assert_eq!(has("rusqlite") || has("tokio-postgres"), name == "store", "{name}");
        assert_eq!(has("rusty-s3"), name == "blobs", "{name}");
        assert!(
            !has("hyper") || ["gateway", "egress", "upstream", "testkit"].contains(&name.as_str()),
            "{name}"
        );
    }
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn statements_stand_in_their_own_room_and_files_are_short() {
    let mut files = Vec::new();
    for name in dependencies().keys().filter(|name| *name != "testkit") {
        sources(&root().join("crates").join(name).join("src"), &mut files);
    }
    assert!(files.len() > 50, "the files were found");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        assert!(code.lines().count() <= 400, "{} is long: split it by meaning", file.display());
        // The store's own statements are the store.
        let in_store = file.starts_with(root().join("crates/store"));
        let in_room = file.file_name().is_some_and(|name| name == "sql.rs")
            || file.parent().is_some_and(|folder| folder.ends_with("sql"));
        if !in_store && !in_room {
            for verb in ["\"insert into ", "\"update ", "\"delete from ", "\"with recursive", "\"select "] {
                assert!(!code.contains(verb), "{} holds a statement; it belongs into sql.rs", file.display());
            }
        }
    }
}

/// Does a source file define this function or hold this constant, and name the type or module that it is of?
fn is_defined(files: &[(PathBuf, String)], of: &str, name: &str) -> bool {
    let is_function = name.starts_with(char::is_lowercase);
    let forms =
        if is_function { vec![format!("fn {name}("), format!("fn {name}<")] } else { vec![name.to_owned()] };
    files.iter().any(|(path, text)| {
        let names_it = text.contains(of) || path.with_extension("").iter().any(|part| part == of);
        names_it && forms.iter().any(|form| text.contains(form.as_str()))
    })
}

#[test]
fn the_walkthroughs_name_what_exists() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(page.lines().count() <= 200, "ARCHITECTURE.md is long: tell of one module in that module");
    let walkthroughs = page.lines().filter(|line| line.starts_with("## Walkthrough")).count();
    assert_eq!(walkthroughs, 3, "every other walkthrough stands in the module that it tells of");
    let mut paths = Vec::new();
    for name in dependencies().keys() {
        sources(&root().join("crates").join(name).join("src"), &mut paths);
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path, text)
    };
    let files: Vec<_> = paths.into_iter().map(read).collect();
    // Every second piece stands between backticks.
    let mut checked = 0;
    for word in page.split('`').skip(1).step_by(2) {
        let function = || word.strip_suffix("()").map(|name| ("", name));
        if let Some((of, name)) = word.split_once("::").or_else(function) {
            assert!(is_defined(&files, of, name), "ARCHITECTURE.md names `{word}`, which does not exist");
            checked += 1;
        }
        if word.contains('/') && Path::new(word).extension().is_some_and(|extension| extension == "rs") {
            let exists = root().join(word).exists() || root().join("crates").join(word).exists();
            assert!(exists, "ARCHITECTURE.md names the file {word}, which does not exist");
            checked += 1;
        }
    }
    assert!(checked > 50, "the names were found");
}
