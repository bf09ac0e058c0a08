//! The setters of options and policies: a field's name, type and meaning are all that differs
//! between them.

/// Makes a method for each of these fields, which sets it and returns the options. After `const`,
/// the methods are `const`; otherwise they take what converts into the field. After `in`, each has
/// a name, an argument or none, and says where in the options it sets which value.
macro_rules! setters {
    (in $(
        $(#[$meaning:meta])* $name:ident($($value:ident: $kind:ty)?) => $($place:tt).+ = $set:expr
    ),+ $(,)?) => {$(
        $(#[$meaning])*
        #[must_use]
        pub fn $name(mut self $(, $value: $kind)?) -> Self {
            self.$($place).+ = $set;
            self
        }
    )+};
    (const $($(#[$meaning:meta])* $field:ident: $kind:ty),+ $(,)?) => {$(
        $(#[$meaning])*
        #[must_use]
        pub const fn $field(mut self, $field: $kind) -> Self {
            self.$field = $field;
            self
        }
    )+};
    ($($(#[$meaning:meta])* $field:ident: $kind:ty),+ $(,)?) => {$(
        $(#[$meaning])*
        #[must_use]
        pub fn $field(mut self, $field: $kind) -> Self {
            self.$field = $field.into();
            self
        }
    )+};
}

pub(crate) use setters;
