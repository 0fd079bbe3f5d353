//! The names behind the numbers in a journal's records.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::limits;

/// The names behind the numbers in the records; another version of the program may have others.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct NameTable {
    /// Of operations.
    pub(crate) operations: Vec<String>,
    /// Of codes, from the number 1 on; 0 is no code.
    pub(crate) codes: Vec<String>,
    /// The database that its calls belong to.
    pub(crate) database: String,
    /// Names that came while the journal was written, whose numbers follow those of the operations.
    #[serde(skip)]
    pub(crate) added: Arc<AddedNames>,
}

/// Names of calls that services serve, each of which comes at its first use.
#[derive(Debug)]
pub(crate) struct AddedNames {
    /// In pieces, so that a name is read without a lock and never moves.
    pieces: [OnceLock<Box<[OnceLock<String>]>>; PIECES],
    numbers: RwLock<Numbers>,
}

#[derive(Debug, Default)]
struct Numbers {
    by_name: HashMap<String, u16>,
    /// How many there are of each service.
    of_service: HashMap<String, usize>,
}

const PIECES: usize = 64;
const PIECE: usize = limits::ADDED_NAMES_MAX / PIECES;

impl Default for AddedNames {
    fn default() -> Self {
        Self { pieces: std::array::from_fn(|_| OnceLock::new()), numbers: RwLock::default() }
    }
}

impl AddedNames {
    fn get(&self, at: usize) -> Option<&str> {
        let piece = self.pieces.get(at / PIECE)?.get()?;
        piece.get(at % PIECE)?.get().map(String::as_str)
    }
}

impl NameTable {
    /// The name of an operation.
    pub(crate) fn operation(&self, number: u16) -> &str {
        let number = usize::from(number);
        match number.checked_sub(self.operations.len()) {
            None => &self.operations[number],
            Some(at) => self.added.get(at).unwrap_or_default(),
        }
    }

    /// The name of a code.
    pub(crate) fn code(&self, number: u8) -> &str {
        usize::from(number).checked_sub(1).and_then(|at| self.codes.get(at)).map_or("", String::as_str)
    }

    /// What stands in a journal's head: the table, and a line for each name that came later. The last line may be cut.
    pub(crate) fn parse(head: &[u8]) -> serde_json::Result<Self> {
        let mut lines = head.split(|byte| *byte == b'\n');
        let mut names: Self = serde_json::from_slice(lines.next().unwrap_or_default())?;
        names.operations.extend(lines.map_while(|line| serde_json::from_slice::<String>(line).ok()));
        Ok(names)
    }

    /// The number of a call that the service serves under that name. A new name is written to the head before any record
    /// has its number. `None` when there are too many names.
    pub(crate) fn number(&self, head: &Mutex<File>, service: &str, name: &str) -> io::Result<Option<u16>> {
        let known = |numbers: &Numbers| numbers.by_name.get(name).copied();
        if let Some(number) = known(&self.added.numbers.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(Some(number));
        }
        let mut numbers = self.added.numbers.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = known(&numbers) {
            return Ok(Some(number));
        }
        let at = numbers.by_name.len();
        let of_service = numbers.of_service.get(service).copied().unwrap_or(0);
        let number = u16::try_from(self.operations.len() + at).ok();
        let number =
            number.filter(|_| at < limits::ADDED_NAMES_MAX && of_service < limits::NAMES_OF_SERVICE_MAX);
        let Some(number) = number else { return Ok(None) };
        let mut line = b"\n".to_vec();
        serde_json::to_writer(&mut line, name)?;
        head.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)?;
        let piece = self.added.pieces[at / PIECE]
            .get_or_init(|| std::iter::repeat_with(OnceLock::new).take(PIECE).collect());
        // Only whoever holds the numbers fills it.
        let _ = piece[at % PIECE].set(name.to_owned());
        numbers.by_name.insert(name.to_owned(), number);
        numbers.of_service.insert(service.to_owned(), of_service + 1);
        Ok(Some(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_that_the_head_knows() {
        let head = tempfile::tempfile().unwrap();
        let names = NameTable { operations: vec!["a.b.get".to_owned()], ..NameTable::default() };
        let head = Mutex::new(head);
        for _ in 0..2 {
            assert_eq!(names.number(&head, "bills", "bills.\"x\"").unwrap(), Some(1));
            assert_eq!(names.number(&head, "bills", "bills.y").unwrap(), Some(2));
        }
        assert_eq!(
            (names.operation(0), names.operation(1), names.operation(3)),
            ("a.b.get", "bills.\"x\"", "")
        );
        let text =
            [serde_json::to_vec(&names).unwrap(), b"\n\"bills.\\\"x\\\"\"\n\"bills.y\"\n\"cu".to_vec()]
                .concat();
        let read = NameTable::parse(&text).unwrap();
        assert_eq!(read.operations, ["a.b.get", "bills.\"x\"", "bills.y"]);
        assert_eq!(read.operation(2), "bills.y");
    }

    #[test]
    fn no_service_takes_all_the_names() {
        let head = Mutex::new(tempfile::tempfile().unwrap());
        let names = NameTable::default();
        let number =
            |service: &str, at: usize| names.number(&head, service, &format!("{service}.{at}")).unwrap();
        for at in 0..limits::NAMES_OF_SERVICE_MAX {
            assert_eq!(number("one", at), Some(u16::try_from(at).unwrap()));
        }
        assert_eq!(number("one", limits::NAMES_OF_SERVICE_MAX), None);
        assert_eq!(number("one", 7), Some(7), "it stays known");
        assert!(number("two", 0).is_some());
    }
}
