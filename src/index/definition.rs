//! Definitions of indexes and of their components.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::key::IndexType;
use crate::call::{self, Context};
use crate::expression::Expression;
use crate::record::BinName;
use crate::setters::setters;
use crate::value::ParticleType;
use crate::{Error, Result, base64};

/// The most components of a key.
const COMPONENTS_MAX: usize = 8;

/// The most bytes in the name of an index: Aerospike's limit.
const NAME_BYTES_MAX: usize = 255;

/// Texts and bytes above this length are left out of the indexes that clients create: Aerospike's
/// limit.
pub(crate) const VALUE_BYTES_MAX: u32 = 2048;

/// The indexed part of a component's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IndexPart {
    /// The value itself.
    #[default]
    Whole,
    /// The elements of a list.
    Elements,
    /// The keys of a map.
    Keys,
    /// The values of a map.
    Values,
    /// The entries of a map: a key and its value, which conditions ask for one after the other.
    Entries,
}

/// The source of a component's value in a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IndexSource {
    /// A bin, or a value in it at an encoded path of contexts; the path is empty for the bin
    /// itself.
    Bin {
        name: Box<str>,
        #[serde(default, with = "base64_bytes")]
        path: Box<[u8]>,
    },
    /// The value of an expression, in encoded form.
    #[serde(with = "base64_bytes")]
    Expression(Box<[u8]>),
}

/// One component of an index's key: a bin, a value in it at a path, or the value of an expression.
///
/// A bin's name converts into a component for the bin's whole value, of any type that can be
/// indexed: truth values, integers, doubles, text and bytes ([`IndexType`]).
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::query::{IndexComponent, IndexDefinition};
/// use spikelet::operations::ctx;
/// let posts = spikelet::Store::in_memory()?.set("posts")?;
/// posts.create_index(IndexDefinition::new("by_tag", [IndexComponent::bin("tags").elements()]))?;
/// let city = IndexComponent::bin("author").at([ctx::map_key("city")]);
/// posts.create_index(IndexDefinition::new("by_city", [city, "posted".into()]))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexComponent {
    pub(crate) source: IndexSource,
    #[serde(default)]
    pub(crate) part: IndexPart,
    /// The indexed type; `None` means every type that can be indexed.
    #[serde(default)]
    pub(crate) kind: Option<IndexType>,
    /// The reason why the component is invalid: a context or an expression without an encoded form.
    #[serde(skip)]
    refusal: Option<Box<str>>,
}

impl IndexComponent {
    /// Indexes the value of a bin.
    #[must_use]
    pub fn bin(name: &str) -> Self {
        Self::of(IndexSource::Bin {
            name: name.into(),
            path: Box::default(),
        })
    }

    /// Indexes the value of an expression. A record without a value is not in the index. The
    /// expression must not read anything that changes without a write, such as the time since the
    /// last update.
    #[must_use]
    pub fn expression(expression: impl Into<Expression>) -> Self {
        match expression.into().to_bytes() {
            Ok(bytes) => Self::of(IndexSource::Expression(bytes.into())),
            Err(error) => Self {
                refusal: Some(error.to_string().into()),
                ..Self::of(IndexSource::Expression(Box::default()))
            },
        }
    }

    /// Indexes the value at a path of contexts in the bin, instead of the bin's whole value. A
    /// record without that path is not in the index.
    #[must_use]
    pub fn at(mut self, contexts: impl IntoIterator<Item = Context>) -> Self {
        let contexts: Vec<Context> = contexts.into_iter().collect();
        match (&mut self.source, call::encode_path(&contexts, 0)) {
            (_, Ok(_)) if contexts.is_empty() => {}
            (IndexSource::Bin { path, .. }, Ok(encoded)) => *path = encoded.into(),
            (IndexSource::Bin { .. }, Err(_)) => {
                self.refusal = Some("a value in its contexts cannot be encoded".into());
            }
            (IndexSource::Expression(_), _) => {
                self.refusal = Some("contexts lead into bins, not into expressions".into());
            }
        }
        self
    }

    /// Indexes the elements of a list instead of its whole value: one entry each. Values of other
    /// types are not in the index.
    #[must_use]
    pub fn elements(self) -> Self {
        self.part(IndexPart::Elements)
    }

    /// Indexes the keys of a map: one entry each.
    #[must_use]
    pub fn map_keys(self) -> Self {
        self.part(IndexPart::Keys)
    }

    /// Indexes the values of a map: one entry each.
    #[must_use]
    pub fn map_values(self) -> Self {
        self.part(IndexPart::Values)
    }

    /// The entries of a map: an index entry for each key with its value. Takes two conditions of a
    /// query: the first is about the key, the second about the value that it has. Keys and values
    /// of a type that is in no index are left out.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::query::{IndexComponent, IndexDefinition};
    /// use spikelet::{Store, Value};
    ///
    /// let shoes = Store::in_memory()?.set("shoes")?;
    /// shoes.create_index(IndexDefinition::new("by_price", [IndexComponent::bin("prices").map_entries()]))?;
    /// let prices = |eur: i64, usd: i64| Value::Map([("EUR", eur), ("USD", usd)].into_iter().collect());
    /// shoes.put("boot", [("prices", prices(90, 120))])?;
    /// shoes.put("clog", [("prices", prices(130, 30))])?;
    /// let cheap = shoes.query("by_price")?.eq("EUR").at_most(100).keys()?;
    /// assert_eq!(cheap.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn map_entries(self) -> Self {
        self.part(IndexPart::Entries)
    }

    setters! { in const
        /// Restricts the index to values of this type; others are not in the index. For the entries
        /// of a map it is the type of their values.
        of_type(kind: IndexType) => kind = Some(kind),
    }

    pub(crate) const fn of(source: IndexSource) -> Self {
        Self {
            source,
            part: IndexPart::Whole,
            kind: None,
            refusal: None,
        }
    }

    pub(crate) const fn part(mut self, part: IndexPart) -> Self {
        self.part = part;
        self
    }

    /// Returns what each condition of a query on it is about: two parts of a map's entries, or one
    /// value.
    pub(crate) fn asked(&self) -> impl Iterator<Item = Self> {
        let parts = match self.part {
            IndexPart::Entries => [Some(IndexPart::Keys), Some(IndexPart::Values)],
            part => [Some(part), None],
        };
        let of_part = |part| self.clone().part(part);
        parts.into_iter().flatten().map(of_part)
    }

    /// Returns how many values an index entry has by this component.
    pub(crate) fn value_count(&self) -> usize {
        match self.part {
            IndexPart::Entries => 2,
            _ => 1,
        }
    }

    /// Returns whether a record may have several entries by this component.
    pub(crate) fn has_many(&self) -> bool {
        self.part != IndexPart::Whole || self.kind == Some(IndexType::GeoJson)
    }

    /// Returns whether a value of this type and length is indexed by its own form. Geometries are
    /// indexed by their cells instead.
    pub(crate) fn takes(&self, kind: ParticleType, stored: &[u8], bytes_max: usize) -> bool {
        let found = IndexType::of(kind).filter(|found| *found != IndexType::GeoJson);
        let is_wanted = |found| self.kind.is_none_or(|wanted| wanted == found);
        found.is_some_and(is_wanted) && stored.len() <= bytes_max
    }

    fn check(&self) -> std::result::Result<(), String> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.to_string());
        }
        if self.kind == Some(IndexType::GeoJson) {
            match self.part {
                IndexPart::Keys => return Err("keys of maps are no geometries".into()),
                IndexPart::Entries => {
                    return Err("entries of maps have no geometries: index the values".into());
                }
                _ => {}
            }
        }
        match &self.source {
            IndexSource::Bin { name, .. } => {
                BinName::new(name).map_err(|error| error.to_string())?;
            }
            IndexSource::Expression(bytes) => {
                let expression =
                    Expression::from_bytes(bytes).map_err(|error| error.to_string())?;
                match expression.is_volatile() {
                    Ok(false) => {}
                    Ok(true) => {
                        let why = "its expression asks for the time to live, the time since the last update, or a size, and these change without a write";
                        return Err(why.into());
                    }
                    Err(error) => return Err(error.to_string()),
                }
            }
        }
        Ok(())
    }
}

/// Shows the bin or the expression, and the indexed part of its value.
impl fmt::Display for IndexComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            IndexPart::Whole => {}
            IndexPart::Elements => f.write_str("element of ")?,
            IndexPart::Keys => f.write_str("key of ")?,
            IndexPart::Values => f.write_str("value of ")?,
            IndexPart::Entries => f.write_str("entry of ")?,
        }
        match &self.source {
            IndexSource::Bin { name, path } if path.is_empty() => f.write_str(name),
            IndexSource::Bin { name, .. } => write!(f, "what the contexts lead to in {name}"),
            IndexSource::Expression(bytes) => write!(f, "expression {}", base64::encode(bytes)),
        }
    }
}

impl From<&str> for IndexComponent {
    fn from(bin: &str) -> Self {
        Self::bin(bin)
    }
}

/// A secondary index: its name and its components, one or several, in the order of its entries.
///
/// A record that lacks a component is not in the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDefinition {
    pub(crate) name: Box<str>,
    pub(crate) components: Vec<IndexComponent>,
    #[serde(default)]
    pub(crate) unique: bool,
    #[serde(default)]
    pub(crate) value_bytes_max: Option<u32>,
    /// A set index, in the words of wire clients: it lists the set's records and indexes no values.
    /// Storage finds these records without entries.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) of_records: bool,
}

impl IndexDefinition {
    /// Defines an index over these components. Queries test the first ones for equality, and the
    /// next one for a range.
    #[must_use]
    pub fn new<C: Into<IndexComponent>>(
        name: &str,
        components: impl IntoIterator<Item = C>,
    ) -> Self {
        Self {
            name: name.into(),
            components: components.into_iter().map(Into::into).collect(),
            unique: false,
            value_bytes_max: None,
            of_records: false,
        }
    }

    /// Defines an index of the records of a set.
    #[cfg(feature = "server")]
    pub(crate) fn of_records(name: &str) -> Self {
        Self {
            of_records: true,
            ..Self::new::<IndexComponent>(name, [])
        }
    }

    /// Returns whether all records that another index would have are in this one, in its order.
    pub(crate) fn has_all_of(&self, other: &Self) -> bool {
        self.components == other.components && self.value_bytes_max.is_none()
    }

    /// Returns whether the definitions are equal except for their names.
    #[cfg(feature = "server")]
    pub(crate) fn is_same_but_name(&self, other: &Self) -> bool {
        self.nameless() == other.nameless()
    }

    /// The definition without its name.
    pub(crate) fn nameless(&self) -> Self {
        Self {
            name: Box::default(),
            ..self.clone()
        }
    }

    setters! { in const
        /// Makes the index unique: no two records may have the same key. A write that would break
        /// this is refused with [`Error::NotUnique`]. Not for components of
        /// [`IndexType::GeoJson`]. Default: false.
        unique(unique: bool) => unique = unique,
        /// Leaves text and bytes longer than this many bytes out of the index, instead of refusing
        /// the write. Queries do not find such records by the index.
        ignoring_longer_than(bytes: u32) => value_bytes_max = Some(bytes),
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the components of the key, in order.
    #[must_use]
    pub fn components(&self) -> &[IndexComponent] {
        &self.components
    }

    /// Returns whether no two records may have the same key.
    #[must_use]
    pub const fn is_unique(&self) -> bool {
        self.unique
    }

    /// # Errors
    /// [`Error::Parameter`].
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |why: String| {
            let name = &self.name;
            Err(Error::parameter(format!("index {name:?}: {why}")))
        };
        // The signs separate the fields of the wire protocol's info commands.
        let named = 1..=NAME_BYTES_MAX;
        if !named.contains(&self.name.len())
            || self
                .name
                .contains(|sign: char| sign.is_control() || ":;,=".contains(sign))
        {
            return refuse(format!(
                "a name has 1 to {NAME_BYTES_MAX} bytes and none of : ; , ="
            ));
        }
        if !(1..=COMPONENTS_MAX).contains(&self.components.len()) && !self.of_records {
            let count = self.components.len();
            return refuse(format!(
                "{count} components, and an index has 1 to {COMPONENTS_MAX}"
            ));
        }
        let many = self
            .components
            .iter()
            .filter(|component| component.has_many());
        let is_geometry = |component: &IndexComponent| component.kind == Some(IndexType::GeoJson);
        if self.unique && self.components.iter().any(is_geometry) {
            return refuse(
                "different geometries may share a cell, and so a key: leave out unique".into(),
            );
        }
        if many.count() > 1 {
            return refuse(
                "two components run over a collection, or over the cells of geometries: one may, or declare two indexes".into(),
            );
        }
        for (at, component) in self.components.iter().enumerate() {
            if let Err(why) = component.check() {
                return refuse(format!("component {at}: {why}"));
            }
        }
        Ok(())
    }
}

/// Bytes as Base64.
mod base64_bytes {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::base64;

    #[expect(clippy::borrowed_box, reason = "the form that serde calls")]
    pub(super) fn serialize<S: Serializer>(
        bytes: &Box<[u8]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64::encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Box<[u8]>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = base64::decode(text.as_bytes());
        bytes
            .map(Into::into)
            .ok_or_else(|| D::Error::custom("not Base64"))
    }
}
