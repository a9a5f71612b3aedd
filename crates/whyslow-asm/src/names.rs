//! Names the targets of calls and jumps from a profile.
//!
//! The recorder stores the names of the functions that stored code calls. Older and imported profiles have no
//! such names. They know functions by sampled addresses, not by where they start. There, a target has a name
//! in two cases: stored code starts at the target, or the call was seen on a stack and led to one function
//! only, with no other known address between the target and that function's first known address. A call
//! through a slot has the name of the function it led to.

use rustc_hash::FxHashMap;
use whyslow_profile::{FunctionId, LocationId, ModuleId, Profile, StackId};

use crate::body::{Branch, Callee, Target};

/// Names of branch targets.
#[derive(Debug)]
pub struct Names<'p> {
    profile: &'p Profile,
    /// Locations with a function, by module and address.
    owners: Vec<(ModuleId, u64, FunctionId)>,
    /// Functions with a known first byte.
    starts: FxHashMap<(ModuleId, u64), FunctionId>,
    /// The function called from an address, with its module; `None` if there were several.
    callees: FxHashMap<(ModuleId, u64), Option<(ModuleId, FunctionId)>>,
    /// Names stored by the recorder, by row.
    kept: FxHashMap<(ModuleId, Target), usize>,
}

impl<'p> Names<'p> {
    /// Collects names from the samples. Only calls from stored code count.
    pub fn of(profile: &'p Profile) -> Self {
        let owner = |location: LocationId| {
            let module = profile.locations.module.get(location.index()).copied().flatten()?;
            let function = profile.frames.of(location).first()?.function;
            Some((module, profile.locations.address[location.index()].0, function))
        };
        let mut names = Self {
            profile,
            owners: (1..profile.locations.len()).filter_map(|row| owner(row.into())).collect(),
            starts: FxHashMap::default(),
            callees: FxHashMap::default(),
            kept: FxHashMap::default(),
        };
        names.kept.extend(profile.targets.iter().enumerate().map(|(row, target)| {
            let address = target.address.0;
            let place = if target.is_slot { Target::Slot(address) } else { Target::Code(address) };
            ((target.module, place), row)
        }));
        if profile.code.rows.is_empty() {
            return names;
        }
        names.owners.sort_unstable();
        for code in &profile.code.rows {
            let (start, length) = (code.start.0, code.bytes.len() as u64);
            if let Some((address, function)) = names.first_from(code.module, start)
                && address - start < length
            {
                names.starts.insert((code.module, start), function);
            }
        }
        names.callees = names.callees(owner);
        names
    }

    fn callees(
        &self,
        owner: impl Fn(LocationId) -> Option<(ModuleId, u64, FunctionId)>,
    ) -> FxHashMap<(ModuleId, u64), Option<(ModuleId, FunctionId)>> {
        let stacks = &self.profile.stacks;
        let mut kept = self
            .profile
            .code
            .rows
            .iter()
            .map(|code| (code.module, code.start.0, code.start.0.saturating_add(code.bytes.len() as u64)))
            .collect::<Vec<_>>();
        kept.sort_unstable();
        let is_kept = |module: ModuleId, address: u64| {
            let after = kept.partition_point(|&(of, start, _)| (of, start) <= (module, address));
            kept[..after].last().is_some_and(|&(of, _, end)| of == module && address < end)
        };
        let mut callees = FxHashMap::default();
        for stack in (0..stacks.len()).map(StackId::from) {
            let Some(parent) = stacks.parent(stack) else { continue };
            let Some((module, address, _)) = owner(stacks.location(parent)) else { continue };
            if !is_kept(module, address) {
                continue;
            }
            let callee = owner(stacks.location(stack));
            let callee = callee.map(|(of, _, function)| (of, function));
            callees
                .entry((module, address))
                .and_modify(|known| {
                    if *known != callee {
                        *known = None;
                    }
                })
                .or_insert(callee);
        }
        callees
    }

    /// The first known address from here on, and its function.
    fn first_from(&self, module: ModuleId, address: u64) -> Option<(u64, FunctionId)> {
        let at = self.owners.partition_point(|&(of, known, _)| (of, known) < (module, address));
        let &(of, known, function) = self.owners.get(at)?;
        (of == module).then_some((known, function))
    }

    /// The function that a branch in this module goes to.
    pub fn target(&self, module: ModuleId, branch: Branch) -> Option<Callee> {
        if let Some(&row) = self.kept.get(&(module, branch.target)) {
            let row = &self.profile.targets[row];
            let size = Some(row.size).filter(|size| *size > 0);
            return Some(Callee { name: self.profile.text(row.name).to_owned(), size });
        }
        let start = match branch.target {
            Target::Code(address) => self.starts.get(&(module, address)).copied(),
            Target::Slot(_) => None,
        };
        let function = start.or_else(|| self.seen_callee(module, branch))?;
        let function = self.profile.functions.get(function.index())?;
        Some(Callee { name: self.profile.text(function.name).to_owned(), size: None })
    }

    fn seen_callee(&self, module: ModuleId, branch: Branch) -> Option<FunctionId> {
        if !branch.is_call {
            return None;
        }
        // A caller's location is the last byte of its call instruction.
        let (of, function) = (*self.callees.get(&(module, branch.next.wrapping_sub(1)))?)?;
        match branch.target {
            Target::Slot(_) => Some(function),
            Target::Code(address) => {
                let (_, nearest) = self.first_from(module, address)?;
                (of == module && nearest == function).then_some(function)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{
        BranchTarget, Code, CodeKind, Frame, Function, Module, ModuleKind, Optimised, RelativeAddress,
        SymbolState,
    };

    use super::*;
    use crate::{Body, Processor, Syntax};

    /// `outer` at 0x1000 calls 0x2000, 0x3000 and 0x4000; stacks show the callees at the given addresses.
    struct Program(Profile);

    impl Program {
        fn new() -> Self {
            let mut profile = Profile::default();
            let path = profile.strings.push("/app");
            profile.modules.push(Module {
                path,
                build_id: None,
                kind: ModuleKind::Program,
                symbols: SymbolState::Lines,
                optimised: Optimised::Yes,
            });
            let bytes = [0x2000_u32, 0x3000, 0x4000].iter().enumerate().flat_map(|(index, target)| {
                let next = 0x1000 + 5 * (index as u32 + 1);
                std::iter::once(0xe8).chain((target - next).to_le_bytes())
            });
            profile.code.rows.push(Code {
                module: ModuleId(0),
                start: RelativeAddress(0x1000),
                bytes: bytes.collect(),
            });
            Self(profile)
        }

        fn location(&mut self, function: &str, address: u64) -> LocationId {
            let profile = &mut self.0;
            let known = profile.functions.iter().position(|row| profile.strings.get(row.name) == function);
            let function = known.unwrap_or_else(|| {
                let name = profile.strings.push(function);
                profile.functions.push(Function {
                    name,
                    raw_name: name,
                    crate_name: None,
                    kind: CodeKind::Yours,
                    file: None,
                    line: 0,
                    module: Some(ModuleId(0)),
                });
                profile.functions.len() - 1
            });
            let location = profile.locations.push(Some(ModuleId(0)), RelativeAddress(address));
            profile.frames.set(location, &[Frame { function: function.into(), file: None, line: 0 }]);
            location
        }

        fn call(&mut self, from: u64, function: &str, address: u64) {
            let caller = self.location("outer", from);
            let callee = self.location(function, address);
            let caller = self.0.stacks.push(None, caller);
            self.0.stacks.push(Some(caller), callee);
        }

        fn text(&self) -> Vec<String> {
            let names = Names::of(&self.0);
            let code = &self.0.code.rows[0];
            Body::new(Processor::X86_64, code, |branch| names.target(code.module, branch))
                .texts(Syntax::Intel)
        }
    }

    #[test]
    fn a_seen_callee_has_its_name() {
        let mut program = Program::new();
        program.call(0x1004, "first", 0x2010);
        program.call(0x1009, "second", 0x3010);
        assert_eq!(program.text(), ["call first", "call second", "call 0x4000"]);
    }

    #[test]
    fn a_callee_that_may_be_another_function_has_none() {
        let mut program = Program::new();
        // The first callee jumped on, once to each function. For the second, another known address lies
        // before the seen one.
        program.call(0x1004, "first", 0x2010);
        program.call(0x1004, "other", 0x2110);
        program.call(0x1009, "second", 0x3010);
        program.location("between", 0x3008);
        assert_eq!(program.text(), ["call 0x2000", "call 0x3000", "call 0x4000"]);
    }

    #[test]
    fn kept_code_is_known_from_its_first_byte() {
        let mut program = Program::new();
        program.location("third", 0x4001);
        program.0.code.rows.push(Code {
            module: ModuleId(0),
            start: RelativeAddress(0x4000),
            bytes: vec![0x90; 4],
        });
        assert_eq!(program.text()[2], "call third");
    }

    #[test]
    fn recorded_names_take_precedence() {
        let mut program = Program::new();
        program.call(0x1004, "first", 0x2010);
        let name = program.0.strings.push("kept");
        let target = BranchTarget {
            module: ModuleId(0),
            address: RelativeAddress(0x2000),
            is_slot: false,
            name,
            size: 7,
        };
        program.0.targets.push(target);
        assert_eq!(program.text(), ["call kept", "call 0x3000", "call 0x4000"]);
        // call [rip+0x10] at 0x1000 reads slot 0x1016.
        program.0.code.rows[0].bytes = vec![0xff, 0x15, 0x10, 0, 0, 0];
        program.0.targets.push(BranchTarget { address: RelativeAddress(0x1016), is_slot: true, ..target });
        assert_eq!(program.text(), ["call qword ptr [rip+0x10] → kept"]);
        let names = Names::of(&program.0);
        let target = Target::Slot(0x1016);
        let branch = Branch { address: 0x1000, next: 0x1006, target, is_call: true };
        assert_eq!(names.target(ModuleId(0), branch).and_then(|callee| callee.size), Some(7));
    }

    #[test]
    fn an_empty_profile_has_no_names() {
        let branch = Branch { address: 0, next: 5, target: Target::Code(9), is_call: true };
        assert_eq!(Names::of(&Profile::default()).target(ModuleId(0), branch), None);
    }
}
