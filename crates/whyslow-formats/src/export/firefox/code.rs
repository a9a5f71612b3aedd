//! The stack, frame and function tables of one thread, with only the rows that its samples use.

use rustc_hash::FxHashMap;
use whyslow_profile::{LocationId, ModuleId, StackId};

use super::schema::{FrameTable, FuncTable, ResourceTable, StackTable};
use crate::export::Export;
use crate::export::places::{Place, file_name, module_of, places};

/// The Firefox Profiler's number for a resource that is a library.
const LIBRARY: u32 = 1;

/// The texts of all threads, each once.
#[derive(Default)]
pub(super) struct Texts {
    pub(super) rows: Vec<String>,
    ids: FxHashMap<String, u32>,
}

impl Texts {
    pub(super) fn id(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.rows.len() as u32;
        self.rows.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }
}

/// The key of a function: name, file, line of the definition, resource.
type FuncKey = (u32, Option<u32>, u32, i64);

/// The tables of a thread while they are built.
pub(super) struct Code<'e, 'p> {
    export: &'e Export<'p>,
    pub(super) stacks: StackTable,
    pub(super) frames: FrameTable,
    pub(super) funcs: FuncTable,
    pub(super) resources: ResourceTable,
    stack_ids: FxHashMap<StackId, u32>,
    /// The frames of a location, outermost first.
    frame_ids: FxHashMap<LocationId, Box<[u32]>>,
    func_ids: FxHashMap<FuncKey, u32>,
    resource_ids: FxHashMap<ModuleId, u32>,
}

impl<'e, 'p> Code<'e, 'p> {
    pub(super) fn new(export: &'e Export<'p>) -> Self {
        Self {
            export,
            stacks: StackTable::default(),
            frames: FrameTable::default(),
            funcs: FuncTable::default(),
            resources: ResourceTable::default(),
            stack_ids: FxHashMap::default(),
            frame_ids: FxHashMap::default(),
            func_ids: FxHashMap::default(),
            resource_ids: FxHashMap::default(),
        }
    }

    /// The row of a stack.
    pub(super) fn stack(&mut self, texts: &mut Texts, stack: StackId) -> u32 {
        let profile = self.export.profile;
        // Walks from the leaf to the first caller that already exists, then back.
        let mut missing = Vec::new();
        let mut row = None;
        for node in profile.stacks.towards_root(stack) {
            row = self.stack_ids.get(&node).copied();
            if row.is_some() {
                break;
            }
            missing.push(node);
        }
        for node in missing.into_iter().rev() {
            let location = profile.stacks.location(node);
            if !self.frame_ids.contains_key(&location) {
                let frames = self.add_frames(texts, location);
                self.frame_ids.insert(location, frames);
            }
            for &frame in &self.frame_ids[&location] {
                self.stacks.frame.push(frame);
                self.stacks.prefix.push(row);
                row = Some(self.stacks.length as u32);
                self.stacks.length += 1;
            }
            if let Some(row) = row {
                self.stack_ids.insert(node, row);
            }
        }
        row.unwrap_or(0)
    }

    fn add_frames(&mut self, texts: &mut Texts, location: LocationId) -> Box<[u32]> {
        let profile = self.export.profile;
        let module = module_of(profile, location);
        let address = profile.locations.address[location.index()].0;
        // An imported frame has a name but no address.
        let address = if module.is_some() { i64::try_from(address).unwrap_or(-1) } else { -1 };
        let places = places(profile, location, self.export.inline);
        places.iter().map(|place| self.add_frame(texts, place, module, address)).collect()
    }

    fn add_frame(
        &mut self,
        texts: &mut Texts,
        place: &Place<'_>,
        module: Option<ModuleId>,
        address: i64,
    ) -> u32 {
        let func = self.func(texts, place, module);
        let table = &mut self.frames;
        let row = table.length as u32;
        table.length += 1;
        table.address.push(address);
        table.inline_depth.push(place.depth as u32);
        table.category.push(super::category(place.kind));
        table.subcategory.push(0);
        table.func.push(func);
        table.native_symbol.push(None);
        table.inner_window_id.push(None);
        table.line.push((place.line > 0).then_some(place.line));
        table.column.push(None);
        row
    }

    fn func(&mut self, texts: &mut Texts, place: &Place<'_>, module: Option<ModuleId>) -> u32 {
        let resource = module.map_or(-1, |module| i64::from(self.resource(texts, module)));
        let name = texts.id(&place.name);
        let file = self.export.definition(place.label).0.or(place.file).map(|file| texts.id(file));
        let key = (name, file, place.definition, resource);
        if let Some(&id) = self.func_ids.get(&key) {
            return id;
        }
        let table = &mut self.funcs;
        let row = table.length as u32;
        table.length += 1;
        table.name.push(name);
        table.is_js.push(false);
        table.relevant_for_js.push(false);
        table.resource.push(resource);
        table.file_name.push(file);
        table.line_number.push((place.definition > 0).then_some(place.definition));
        table.column_number.push(None);
        self.func_ids.insert(key, row);
        row
    }

    fn resource(&mut self, texts: &mut Texts, module: ModuleId) -> u32 {
        if let Some(&id) = self.resource_ids.get(&module) {
            return id;
        }
        let profile = self.export.profile;
        let path = profile.text(profile.modules[module.index()].path);
        let table = &mut self.resources;
        let row = table.length as u32;
        table.length += 1;
        table.lib.push(module.0);
        table.name.push(texts.id(file_name(path)));
        table.host.push(None);
        table.kind.push(LIBRARY);
        self.resource_ids.insert(module, row);
        row
    }
}
