//! Turns spans of `tracing` into spans of the profile.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};

use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::wire::{DETAIL_MOST, Kind};
use super::{progress, recorder};

/// A layer that marks every span of `tracing` while it is entered.
///
/// The fields of a span become its detail. A span that is entered several times, like those of async tasks,
/// gives one span in the profile for each entry: the time that a thread actually spent in it.
#[derive(Debug, Default, Clone, Copy)]
pub struct TracingLayer {
    events: bool,
}

thread_local! {
    /// The spans that this thread has entered, with the time of entry.
    static ENTERED: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

/// The fields of a span or an event as `name=value name=value`.
#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // A value that fails to format is cut short.
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else if self.rest.len() < DETAIL_MOST {
            let gap = if self.rest.is_empty() { "" } else { " " };
            write!(self.rest, "{gap}{}={value:?}", field.name())
        } else {
            Ok(())
        };
    }
}

impl TracingLayer {
    /// Creates a layer that marks spans only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also marks events, as moments named by their message.
    #[must_use]
    pub fn with_events(self) -> Self {
        Self { events: true }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TracingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if recorder::is_recorded()
            && let Some(span) = context.span(id)
        {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if recorder::is_recorded() {
            if let Some(span) = context.span(id) {
                progress::begin(span.name());
            }
            // A thread that is exiting no longer marks what it enters.
            let _ = ENTERED.try_with(|entered| {
                entered.borrow_mut().push((id.into_u64(), recorder::now_ns()));
            });
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let start = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            let at = entered.iter().rposition(|(entered, _)| *entered == id.into_u64())?;
            Some(entered.remove(at).1)
        });
        if let Ok(Some(start_ns)) = start
            && let Some(span) = context.span(id)
        {
            let now = recorder::now_ns();
            let extensions = span.extensions();
            let detail = extensions.get::<Fields>().map_or("", |fields| &fields.rest);
            progress::end(span.name());
            recorder::send(Kind::Span, span.name(), detail, start_ns, now, now);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if self.events && recorder::is_recorded() {
            let now = recorder::now_ns();
            let mut fields = Fields::default();
            event.record(&mut fields);
            let name = if fields.message.is_empty() { event.metadata().name() } else { &fields.message };
            recorder::send(Kind::Moment, name, &fields.rest, now, now, now);
        }
    }
}
