//! Deleting a few rows at a time.

/// The text of a statement that deletes those rows of `table` that meet `condition`, at most `$2` of them, so that no
/// transaction takes long. `key` names the columns that tell rows apart. The condition may end with an order.
///
/// `also` is a condition on the deleted rows themselves. It is needed where `key` tells rows apart only together with it,
/// and where another server may change a row between choosing and deleting it.
#[macro_export]
macro_rules! delete_some {
    ($table:literal, $key:literal, $condition:literal $(, also $also:literal)?) => {
        concat!(
            "delete from ", $table, " where ", $($also, " and ",)? "(", $key, ") in (select ", $key, " from ", $table,
            " where ", $condition, " limit $2)"
        )
    };
}
