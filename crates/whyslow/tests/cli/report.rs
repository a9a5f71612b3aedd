//! `whyslow report`: each view, as text and JSON.
