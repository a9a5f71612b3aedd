//! Reads the JSON around the events, event by event.

use std::fmt;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::super::json::{Number, Text};
use super::Trace;
use super::frames::{FrameSample, StackFrame};
use super::v8::{Node, Tree};

/// An id of a process, thread or slice: a number or a name.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) enum Id {
    #[default]
    None,
    Number(i64),
    Name(String),
}

impl Id {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// A number for the profile: the id itself, or the row if the id is not a number.
    pub(super) fn number(&self, row: usize) -> u32 {
        match self {
            Self::Number(number) => u32::try_from(*number).unwrap_or(row as u32),
            Self::None => 0,
            Self::Name(_) => row as u32,
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::Number(number) => match number.as_i64() {
                Some(number) => Self::Number(number),
                None => Self::Name(number.to_string()),
            },
            Value::String(name) => Self::Name(name),
            _ => Self::None,
        })
    }
}

/// One event. Missing fields have their defaults.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(rename = "ph", borrow)]
    pub(super) phase: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(rename = "cat", borrow)]
    pub(super) category: Text<'a>,
    #[serde(rename = "ts")]
    pub(super) time: Number,
    #[serde(rename = "dur")]
    pub(super) duration: Option<Number>,
    #[serde(rename = "tdur")]
    pub(super) thread_duration: Option<Number>,
    pub(super) pid: Id,
    pub(super) tid: Id,
    pub(super) id: Id,
    #[serde(rename = "id2")]
    pub(super) ids: ScopedIds,
    #[serde(borrow)]
    pub(super) scope: Text<'a>,
    pub(super) args: Value,
}

/// The id of a slice, as Chrome writes it now: known to one process, or to all.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScopedIds {
    pub(super) local: Id,
    pub(super) global: Id,
}

/// Reads the whole file. On an error, the events before it are kept.
pub(super) fn read(text: &[u8], trace: &mut Trace) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(text);
    Document(trace).deserialize(&mut json)?;
    // A trailing comma may follow the list.
    Ok(())
}

struct Document<'a>(&'a mut Trace);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of trace events, or an object that holds one")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<(), A::Error> {
        while let Some(event) = events.next_element::<Option<Event<'de>>>()? {
            if let Some(event) = event {
                self.0.event(&event);
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let v8 = |trace: &mut Trace, nodes: Vec<Node<'de>>| trace.v8.file_nodes(&nodes);
        while let Some(key) = fields.next_key::<Text<'de>>()? {
            match key.as_str() {
                "traceEvents" => fields.next_value_seed(Document(&mut *self.0))?,
                "nodes" => v8(self.0, fields.next_value()?),
                "samples" => {
                    let Loose(numbers, objects) = fields.next_value()?;
                    self.0.v8.file_samples(numbers);
                    self.0.sampled.samples = objects;
                }
                "stackFrames" => {
                    let frames = fields.next_value::<Option<FxHashMap<String, StackFrame>>>()?;
                    self.0.sampled.frames = frames.unwrap_or_default();
                }
                "timeDeltas" => self.0.v8.file_deltas(fields.next_value::<Loose>()?.0),
                "startTime" => self.0.v8.file_start(fields.next_value::<Number>()?.0),
                "endTime" => self.0.v8.file_end(fields.next_value::<Number>()?.0),
                "head" => self.0.v8.file_tree(&fields.next_value::<Option<Tree<'de>>>()?.unwrap_or_default()),
                "timestamps" => self.0.v8.file_times(fields.next_value::<Loose>()?.0),
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The numbers and samples of a list. Other elements, and other values in its place, are ignored.
#[derive(Debug, Default)]
pub(super) struct Loose(pub(super) Vec<f64>, pub(super) Vec<FrameSample>);

enum LooseItem {
    Number(f64),
    Sample(FrameSample),
    Other,
}

impl<'de> Deserialize<'de> for LooseItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Item;
        impl<'de> Visitor<'de> for Item {
            type Value = LooseItem;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_u64<E>(self, value: u64) -> Result<LooseItem, E> {
                Ok(LooseItem::Number(value as f64))
            }

            fn visit_i64<E>(self, value: i64) -> Result<LooseItem, E> {
                Ok(LooseItem::Number(value as f64))
            }

            fn visit_f64<E>(self, value: f64) -> Result<LooseItem, E> {
                Ok(LooseItem::Number(value))
            }

            fn visit_str<E>(self, _: &str) -> Result<LooseItem, E> {
                Ok(LooseItem::Other)
            }

            fn visit_bool<E>(self, _: bool) -> Result<LooseItem, E> {
                Ok(LooseItem::Other)
            }

            fn visit_unit<E>(self) -> Result<LooseItem, E> {
                Ok(LooseItem::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<LooseItem, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(LooseItem::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, items: A) -> Result<LooseItem, A::Error> {
                FrameSample::deserialize(MapAccessDeserializer::new(items)).map(LooseItem::Sample)
            }
        }
        deserializer.deserialize_any(Item)
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Option::<Vec<LooseItem>>::deserialize(deserializer)?.unwrap_or_default();
        let mut list = Self::default();
        for item in items {
            match item {
                LooseItem::Number(number) => list.0.push(number),
                LooseItem::Sample(sample) => list.1.push(sample),
                LooseItem::Other => {}
            }
        }
        Ok(list)
    }
}
