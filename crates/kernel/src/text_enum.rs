//! Enums whose values have names.

/// Writes an enum whose values have names, on the wire, in the database or in texts:
///
/// ```
/// portico_kernel::text_enum! {
///     /// How a delivery stands.
///     #[derive(Debug, Clone, Copy, PartialEq, Eq)]
///     pub enum Status {
///         /// It is to be sent.
///         Pending = "pending",
///         /// The receiver took it.
///         Delivered = "delivered",
///     }
/// }
/// assert_eq!(Status::Pending.name(), "pending");
/// assert_eq!(Status::parse("delivered"), Some(Status::Delivered));
/// assert_eq!(Status::ALL.len(), 2);
/// ```
///
/// The enum must be `Copy`. `portico_store::text_value!` lets a column hold it.
#[macro_export]
macro_rules! text_enum {
    ($(#[$meta:meta])* $vis:vis enum $type:ident { $($(#[$each:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        $vis enum $type {
            $($(#[$each])* $variant,)+
        }

        impl $type {
            /// Every value, in the order in which they are listed.
            $vis const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name.
            $vis const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The value of that name; `None` when there is none.
            $vis fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}
