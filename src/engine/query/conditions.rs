//! What a query asks of an index: values of the first components, and a range of the next.

use std::ops::Bound;

#[cfg(feature = "server")]
use super::bound::IndexBound;
use super::geometry::matching;
use crate::geo::Geometry;
use crate::index::{
    EntryRange, EntrySelection, IndexComponent, IndexDefinition, IndexType, end_of_prefix, form_of,
    form_of_prefix, type_of_form,
};
use crate::value::Value;
use crate::{Error, Result};

/// In the order in which they were given.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    conditions: Vec<QueryCondition>,
}

#[derive(Clone, Debug)]
pub(super) enum QueryCondition {
    Equal(Value),
    Range(Bound<Value>, Bound<Value>),
    Prefix(Value),
    /// GeoJSON of a region.
    Within(Box<str>),
    /// GeoJSON of a point.
    Containing(Box<str>),
    /// The only condition of a wire client.
    #[cfg(feature = "server")]
    Bound(IndexBound),
}

impl Conditions {
    pub(super) fn push(&mut self, condition: QueryCondition) {
        self.conditions.push(condition);
    }

    /// Refuses conditions on a query that has no index.
    pub(super) fn check_none(&self) -> Result<()> {
        if self.conditions.is_empty() {
            Ok(())
        } else {
            Err(Error::parameter(
                "a query over all records has no components to compare: use a filter, or query by an index",
            ))
        }
    }

    /// The entries that fit.
    ///
    /// # Errors
    /// [`Error::Parameter`] for more conditions than components, a condition behind a range, a
    /// value that is in no index, or bounds of different types; [`Error::GeoJson`].
    pub(super) fn selection(&self, definition: &IndexDefinition) -> Result<EntrySelection> {
        let refuse = |why: String| {
            let name = definition.name();
            Err(Error::parameter(format!("query by index {name:?}: {why}")))
        };
        let components = asked(definition).count();
        if self.conditions.len() > components {
            let given = self.conditions.len();
            return refuse(format!("{given} conditions for {components} components"));
        }
        let mut key = Vec::new();
        let mut conditions = self.conditions.iter();
        let mut component = 0;
        while let Some(condition) = conditions.next() {
            component += 1;
            let range: EntrySelection = match condition {
                QueryCondition::Equal(value) => match form_of(value) {
                    Some(form) => {
                        key.extend_from_slice(&form);
                        continue;
                    }
                    None => return refuse(format!("{value} is of a type that is in no index")),
                },
                QueryCondition::Prefix(prefix) => match form_of_prefix(prefix) {
                    Some(form) => EntryRange::with_prefix(&[&*key, &form].concat()).into(),
                    None => {
                        return refuse(format!("{prefix} is neither text nor bytes to begin with"));
                    }
                },
                QueryCondition::Range(start, end) => match range_of(&key, start, end) {
                    Ok(range) => range.into(),
                    Err(why) => return refuse(why),
                },
                #[cfg(feature = "server")]
                QueryCondition::Bound(bound) => bound.selection(),
                QueryCondition::Within(text) | QueryCondition::Containing(text) => {
                    let of = asked(definition).nth(component - 1);
                    let of = of.filter(|(_, of)| of.kind == Some(IndexType::GeoJson));
                    let Some((of, _)) = of else {
                        return refuse(format!(
                            "component {} is not of IndexType::GeoJson",
                            component - 1
                        ));
                    };
                    let geometry = Geometry::parse(text.as_bytes())?;
                    let is_region = matches!(geometry, Geometry::Region(_));
                    if is_region != matches!(condition, QueryCondition::Within(_)) {
                        return refuse(
                            "within takes a region, and containing takes a point".into(),
                        );
                    }
                    matching(&key, of, geometry)
                }
            };
            // Entries are sorted component by component: with a further condition behind a range,
            // the entries that fit would not be one stretch of the index.
            return match conditions.next() {
                None => Ok(range),
                Some(_) => refuse("a condition follows a range: use a filter for it".into()),
            };
        }
        Ok(EntryRange::with_prefix(&key).into())
    }

    /// The condition on each component that has one, in words.
    pub(super) fn describe(&self, definition: &IndexDefinition) -> Vec<String> {
        let described = self.conditions.iter().zip(asked(definition));
        let describe =
            |(condition, (_, component)): (&QueryCondition, (_, IndexComponent))| match condition {
                QueryCondition::Equal(value) => format!("{component} is {value}"),
                QueryCondition::Prefix(prefix) => format!("{component} begins with {prefix}"),
                QueryCondition::Within(region) => format!("{component} lies in {region}"),
                QueryCondition::Containing(point) => format!("{component} contains {point}"),
                #[cfg(feature = "server")]
                QueryCondition::Bound(bound) => format!("{component} is of {bound:?}"),
                QueryCondition::Range(start, end) => {
                    let from = match start {
                        Bound::Included(value) => format!(" from {value}"),
                        Bound::Excluded(value) => format!(" above {value}"),
                        Bound::Unbounded => String::new(),
                    };
                    let to = match end {
                        Bound::Included(value) => format!(" to {value}"),
                        Bound::Excluded(value) => format!(" below {value}"),
                        Bound::Unbounded => String::new(),
                    };
                    format!("{component}{from}{to}")
                }
            };
        described.map(describe).collect()
    }
}

/// What each condition of a query is about, with the number of the component that it is part of.
fn asked(definition: &IndexDefinition) -> impl Iterator<Item = (usize, IndexComponent)> {
    let components = definition.components().iter().enumerate();
    components.flat_map(|(number, component)| component.asked().map(move |of| (number, of)))
}

/// The entries behind `key` with a next component between the bounds.
fn range_of(
    key: &[u8],
    start: &Bound<Value>,
    end: &Bound<Value>,
) -> std::result::Result<EntryRange, String> {
    let form = |value: &Value| {
        form_of(value).ok_or_else(|| format!("{value} is of a type that is in no index"))
    };
    let forms = |bound: &Bound<Value>| match bound {
        Bound::Included(value) | Bound::Excluded(value) => form(value).map(Some),
        Bound::Unbounded => Ok(None),
    };
    let (first, last) = (forms(start)?, forms(end)?);
    let kinds = [&first, &last].map(|form| form.as_deref().and_then(type_of_form));
    let kind = match kinds {
        [Some(first), Some(last)] if first != last => {
            return Err("the bounds of a range are of different types".into());
        }
        [Some(kind), _] | [None, Some(kind)] => kind,
        [None, None] => return Ok(EntryRange::with_prefix(key)),
    };
    let join = |form: &[u8]| [key, form].concat();
    // All entries with a value begin with its form, and no form begins with another.
    let from = match (&first, start) {
        (Some(form), Bound::Excluded(_)) => match end_of_prefix(&join(form)) {
            Bound::Excluded(behind) => Bound::Included(behind),
            other => other,
        },
        (Some(form), _) => Bound::Included(join(form).into()),
        (None, _) => Bound::Included(join(kind).into()),
    };
    let to = match (&last, end) {
        (Some(form), Bound::Included(_)) => end_of_prefix(&join(form)),
        (Some(form), _) => Bound::Excluded(join(form).into()),
        (None, _) => end_of_prefix(&join(kind)),
    };
    Ok(EntryRange {
        start: from,
        end: to,
    })
}
