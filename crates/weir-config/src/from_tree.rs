//! Reads the model from the tree: the only way into it, so that what serde makes of each type is compiled
//! once. The tree has been checked, so that an error here is a fault of Weir. Must not know a key of the
//! model.
//!
//! A table gives each of its entries. A struct with a field [`WHOLE`] gets the table itself there as well,
//! for what it shares with others: serde's `flatten` has everything below it compiled again, and copies it.

use crate::tree::{Entry, Node, Value};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor,
    value::Error,
};
use serde::forward_to_deserialize_any;
use std::slice::Iter;

/// The name of the field that takes the whole table.
const WHOLE: &str = "*";

/// Reads a value of the model.
///
/// # Errors
/// The tree is not one.
pub(crate) fn read<'a, T: Deserialize<'a>>(node: &'a Node) -> Result<T, Error> {
    T::deserialize(Tree(node))
}

struct Tree<'a>(&'a Node);

impl<'a> Tree<'a> {
    #[cold]
    fn unfit(&self, wanted: &str) -> Error {
        Error::custom(format_args!("{} in place of {wanted}", self.0.kind()))
    }

    fn text(&self) -> Result<&'a str, Error> {
        self.0.as_text().ok_or_else(|| self.unfit("a text"))
    }

    fn number<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.value {
            Value::Integer(number) => visitor.visit_i64(number),
            Value::Float(number) => visitor.visit_f64(number),
            _ => Err(self.unfit("a number")),
        }
    }

    fn entries(&self, whole: Option<&'a Node>) -> Result<Entries<'a>, Error> {
        match &self.0.value {
            Value::Table(table) => Ok(Entries { left: table.entries.iter(), here: self.0, whole }),
            _ => Err(self.unfit("a table")),
        }
    }

    fn items(&self) -> Result<Items<'a>, Error> {
        match &self.0.value {
            Value::List(list) => Ok(Items(list.iter())),
            _ => Err(self.unfit("a list")),
        }
    }
}

/// Each kind of value is visited for what may be that kind alone: a visit that nothing leads to is not
/// compiled.
macro_rules! numbers {
    ($($name:ident)*) => {
        $(fn $name<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
            self.number(visitor)
        })*
    };
}

impl<'a> Deserializer<'a> for Tree<'a> {
    type Error = Error;

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }

    /// For what is told apart by its kind.
    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.0.value {
            Value::Text(text) => visitor.visit_str(&text.text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Date | Value::Lost => visitor.visit_unit(),
            Value::List(_) => visitor.visit_seq(self.items()?),
            Value::Table(_) => visitor.visit_map(self.entries(None)?),
        }
    }

    fn deserialize_bool<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.value {
            Value::Bool(flag) => visitor.visit_bool(flag),
            _ => Err(self.unfit("true or false")),
        }
    }

    fn deserialize_str<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(self, _: &'static str, to: V) -> Result<V::Value, Error> {
        to.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(self.items()?)
    }

    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self.entries(None)?)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let whole = fields.contains(&WHOLE).then_some(self.0);
        visitor.visit_map(self.entries(whole)?)
    }

    /// One of a few words.
    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.text()?.into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

/// The values of a list.
struct Items<'a>(Iter<'a, Node>);

impl<'a> SeqAccess<'a> for Items<'a> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        match self.0.next() {
            Some(node) => Ok(Some(seed.deserialize(Tree(node))?)),
            None => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The entries of a table, and then the table itself where it is wanted.
struct Entries<'a> {
    left: Iter<'a, Entry>,
    /// The value of the key that was given last; the table itself before the first.
    here: &'a Node,
    whole: Option<&'a Node>,
}

impl<'a> Entries<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let entry = self.left.next().map(|entry| (entry.key.as_str(), &entry.node));
        let (key, node) = entry.or_else(|| Some((WHOLE, self.whole.take()?)))?;
        self.here = node;
        Some(key)
    }
}

impl<'a> MapAccess<'a> for Entries<'a> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        match self.next() {
            Some(key) => Ok(Some(seed.deserialize(key.into_deserializer())?)),
            None => Ok(None),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(Tree(self.here))
    }
}
