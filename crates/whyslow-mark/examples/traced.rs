//! Marks spans of `tracing`: run `cargo run -p whyslow-mark --features tracing --example traced` under
//! `whyslow`.

use tracing_subscriber::prelude::*;

fn main() {
    tracing_subscriber::registry().with(whyslow_mark::TracingLayer::new().with_events()).init();
    for number in 0..3 {
        let load = tracing::info_span!("load", number, size = tracing::field::Empty);
        let _in_load = load.enter();
        tracing::info_span!("parse").in_scope(|| std::thread::sleep(std::time::Duration::from_millis(1)));
        load.record("size", 10 * number);
        tracing::info!(number, "loaded");
    }
    println!("{}", if whyslow_mark::is_recorded() { "recorded" } else { "not recorded" });
}
