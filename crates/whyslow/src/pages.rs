//! The viewer's page of a profile, as a file of its own or for a server.

use std::path::Path;

use whyslow_profile::{MetricId, Profile};
use whyslow_render::html::{Explained, Page, first_view, view_of_metric, write_page};

use crate::allowed::for_viewer;
use crate::cli::Volume;
use crate::failure::Result;
use crate::output::{Output, note};
use crate::shell;

/// Builds the page of a profile, with its findings, opened with a metric.
pub(crate) fn with_page<R>(
    path: &Path,
    profile: &Profile,
    metric: MetricId,
    show: impl FnOnce(&Page<'_>) -> R,
) -> R {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let file = shell::file(path);
    let explained = Explained { explanation: &for_viewer(profile, &file), path: &file };
    let parts = [view_of_metric(profile, metric), first_view(profile).to_owned()];
    let view = parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("&");
    show(&Page::explained(profile, &name, explained).opened_with(&view))
}

/// Writes the page of a whole profile.
pub(crate) fn save_whole(path: &Path, profile: &Profile, output: &Output, volume: Volume) -> Result {
    with_page(path, profile, profile.main_metric(), |page| save(page, output, volume))
}

/// Writes a page.
pub(crate) fn save(page: &Page<'_>, output: &Output, volume: Volume) -> Result {
    output.write(|out| write_page(page, out))?;
    if let Output::File(path) = output
        && volume > Volume::Quiet
    {
        note(&format!("whyslow: wrote {}\n", path.display()));
    }
    Ok(())
}
