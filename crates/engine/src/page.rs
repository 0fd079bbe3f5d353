//! Pages of a list.

use portico_kernel::Problem;

/// Where a page ends: the sort key of its last item, in a form that only its operation reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

/// How many items a page may have: 0 or nothing means the default, more than the most means the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSize(u16);

impl PageSize {
    /// What 0 or nothing means, unless whoever calls has another default.
    pub const DEFAULT: u16 = 50;
    /// The most.
    pub const MAX: u16 = 200;

    /// The size for what the caller asked, where 0 or nothing means `default`; `None` when it is negative.
    pub fn asked(size: Option<i32>, default: u16) -> Option<Self> {
        match size.unwrap_or(0) {
            0 => Some(Self(default)),
            size if size < 0 => None,
            size => Some(Self(u16::try_from(size).unwrap_or(Self::MAX).min(Self::MAX))),
        }
    }
}

/// The page that a caller asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// The largest number of items.
    pub size: PageSize,
    /// Where the page before ended; `None` for the first page.
    pub after: Option<Cursor>,
}

impl PageRequest {
    /// How many rows to read: one more than the page holds, to know whether another page follows.
    pub fn rows(&self) -> i64 {
        i64::from(self.size.0) + 1
    }

    /// The cursor as a number, for lists that are sorted by one.
    pub fn after_number(&self) -> Result<Option<i64>, Problem> {
        let parse =
            |cursor: &Cursor| cursor.0.parse().map_err(|_| Problem::internal("a cursor that is no number"));
        self.after.as_ref().map(parse).transpose()
    }

    /// Makes the page of `rows`, of which there may be one more than the page holds.
    pub fn page<R, T>(&self, rows: Vec<R>, cursor: impl Fn(&R) -> Cursor, item: impl Fn(R) -> T) -> Page<T> {
        let more = rows.len() > usize::from(self.size.0);
        let keep = rows.into_iter().take(usize::from(self.size.0));
        let items: Vec<_> = keep.map(|row| (cursor(&row), item(row))).collect();
        let next = items.last().filter(|_| more).map(|(cursor, _)| cursor.clone());
        Page { items, next }
    }

    /// The page of a list that is held in memory whole.
    pub fn slice<T>(&self, all: impl IntoIterator<Item = T>) -> Result<Page<T>, Problem> {
        let skip = usize::try_from(self.after_number()?.unwrap_or(0)).unwrap_or(usize::MAX);
        let rows: Vec<_> = (1i64..).zip(all).skip(skip).take(usize::from(self.size.0) + 1).collect();
        Ok(self.page(rows, |(number, _)| Cursor(number.to_string()), |(_, item)| item))
    }
}

/// A page as an operation answers it. The engine writes it to the wire: it names the list as the operation's
/// `Spec` does, keeps the answer within its bound, and seals the token of the next page.
#[derive(Debug)]
pub struct Page<T> {
    /// The items, each with the cursor that a page ending at it would have.
    pub items: Vec<(Cursor, T)>,
    /// Where this page ends, when another follows. It stays where it is when an operation takes items out.
    pub next: Option<Cursor>,
}

/// A page of a list that says on every page how many items there are in all, as `total_size`.
#[derive(Debug)]
pub struct CountedPage<T> {
    /// The page.
    pub page: Page<T>,
    /// How many items there are.
    pub total_size: i32,
}
