//! Which columns hold sealed values, so that they can be counted by key and wrapped anew.

/// A column that holds sealed values. [`sealed_column!`](crate::sealed_column!) writes its statements.
#[derive(Debug, Clone, Copy)]
pub struct SealedColumn {
    /// `table.column`.
    pub name: &'static str,
    /// Counts its values by the key that wraps them: columns `key` and `number`.
    pub count: &'static str,
    /// How its values are wrapped anew; `None` where they end within days by themselves.
    pub wrapping: Option<Wrapping>,
}

/// How the values of a column are wrapped anew.
#[derive(Debug, Clone, Copy)]
pub struct Wrapping {
    /// What the values are sealed for.
    pub purpose: &'static str,
    /// Reads values that the key `$1` wraps, of rows behind the row `$2`, at most `$3` of them: columns `id`, `account`,
    /// `place` and `sealed`. Account and place are those of the [`Context`](crate::Context).
    pub select: &'static str,
    /// Puts `$1` in the place of `$3` in the row `$2`. It touches nothing where another value stands there by now.
    pub replace: &'static str,
}

/// Where the id of the key stands in a sealed value, as `substr` counts: the first byte, and how many.
#[doc(hidden)]
#[macro_export]
macro_rules! key_id_of {
    ($column:literal) => {
        concat!("substr(", $column, ", 2, 8)")
    };
}

/// The [`SealedColumn`] of that table and column. `key` tells rows apart, as one text; `account` and `row` are those of the
/// context that the values are sealed with. All three are expressions of SQL. Values are counted and wrapped where the
/// condition holds, if there is one; those that are `counted` are not wrapped anew.
#[macro_export]
macro_rules! sealed_column {
    ($table:literal, $column:literal, counted) => {
        $crate::SealedColumn {
            name: concat!($table, ".", $column),
            count: $crate::sealed_column!(@count $table, $column, "true"),
            wrapping: None,
        }
    };
    ($table:literal, $column:literal, key $key:literal, account $account:literal, row $row:literal,
     purpose $purpose:expr) => {
        $crate::sealed_column!(
            $table, $column, key $key, account $account, row $row, purpose $purpose, where "true"
        )
    };
    ($table:literal, $column:literal, key $key:literal, account $account:literal, row $row:literal,
     purpose $purpose:expr, where $condition:literal) => {
        $crate::SealedColumn {
            name: concat!($table, ".", $column),
            count: $crate::sealed_column!(@count $table, $column, $condition),
            wrapping: Some($crate::Wrapping {
                purpose: $purpose,
                select: concat!(
                    "select ", $key, " as id, ", $account, " as account, ", $row, " as place, ", $column,
                    " as sealed from ", $table, " where ", $crate::key_id_of!($column), " = $1 and ", $key,
                    " > $2 and ", $condition, " order by ", $key, " limit $3"
                ),
                replace: concat!(
                    "update ", $table, " set ", $column, " = $1 where ", $key, " = $2 and ", $column, " = $3"
                ),
            }),
        }
    };
    (@count $table:literal, $column:literal, $condition:literal) => {
        concat!(
            "select ", $crate::key_id_of!($column), " as key, count(*) as number from ", $table, " where length(",
            $column, ") > 0 and ", $condition, " group by ", $crate::key_id_of!($column)
        )
    };
}
