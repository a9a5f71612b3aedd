//! Tests with the files of real machines.

use super::*;

/// Builds a machine from files and their contents.
fn machine(files: &[(&str, &str)]) -> (Machine, tempfile::TempDir) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    (Machine::under(root.path()), root)
}

const DEVICES: &str = "sys/bus/event_source/devices";

/// A desktop with Intel's Ice Lake: one kind of CPU, top-down counters, energy.
fn ice_lake() -> (Machine, tempfile::TempDir) {
    let files = [
        ("cpu/type", "4\n"),
        ("cpu/format/event", "config:0-7\n"),
        ("cpu/format/umask", "config:8-15\n"),
        ("cpu/format/inv", "config:23\n"),
        ("cpu/format/cmask", "config:24-31\n"),
        ("cpu/format/ldlat", "config1:0-15\n"),
        ("cpu/events/cache-misses", "event=0x2e,umask=0x41\n"),
        ("cpu/events/slots", "event=0x00,umask=0x4\n"),
        ("cpu/events/topdown-retiring", "event=0x00,umask=0x80\n"),
        ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
        ("cpu/events/odd", "event=?\n"),
        ("power/type", "11\n"),
        ("power/cpumask", "0\n"),
        ("power/format/event", "config:0-7\n"),
        ("power/events/energy-pkg", "event=0x02\n"),
        ("power/events/energy-pkg.scale", "2.3283064365386962890625e-10\n"),
        ("power/events/energy-pkg.unit", "Joules\n"),
        ("software/type", "1\n"),
    ];
    let files: Vec<(String, &str)> = files.map(|(path, text)| (format!("{DEVICES}/{path}"), text)).into();
    let mut files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    files.push(("sys/kernel/tracing/events/sched/sched_switch/id", "316\n"));
    files.push(("sys/kernel/tracing/events/sched/enable", "0\n"));
    machine(&files)
}

fn event(machine: &Machine, text: &str) -> Event {
    let specs = crate::parse(text).unwrap();
    machine.resolve(&specs[0]).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(machine: &Machine, text: &str) -> String {
    machine.resolve(&crate::parse(text).unwrap()[0]).unwrap_err().to_string()
}

#[test]
fn names_are_looked_up_in_the_table_and_on_the_machine() {
    let (machine, _root) = ice_lake();
    assert!(machine.has_cpu_counters());
    let cycles = event(&machine, "cycles:u");
    let attr = Attr { exclude_kernel: true, exclude_hypervisor: true, ..Attr::default() };
    assert_eq!((cycles.attrs, cycles.kind, cycles.sets_modes), (vec![attr], Kind::Hardware, true));
    let slots = event(&machine, "slots");
    assert_eq!(slots.attrs, [Attr { kind: 4, configs: [0x400, 0, 0], ..Attr::default() }]);
    assert_eq!(event(&machine, "task-clock").unit, Unit::Nanoseconds);
    let tlb = event(&machine, "dTLB-load-misses:k").attrs[0];
    assert_eq!((tlb.kind, tlb.configs[0], tlb.exclude_user, tlb.exclude_kernel), (3, 0x1_0003, true, false));
    assert_eq!(
        event(&machine, "r01c2:pp").attrs[0],
        Attr { kind: 4, configs: [0x1c2, 0, 0], precise: 2, ..Attr::default() }
    );
}

#[test]
fn terms_of_a_unit_set_its_config_words() {
    let (machine, _root) = ice_lake();
    let words = |text: &str| event(&machine, text).attrs[0].configs;
    assert_eq!(words("cpu/event=0x3c,umask=0/"), [0x3c, 0, 0]);
    assert_eq!(words("cpu/cache-misses,inv,cmask=2/"), [0x0280_412e, 0, 0]);
    assert_eq!(words("cpu/mem-loads/"), [0x1cd, 3, 0]);
    assert_eq!(words("cpu/config=0x1234,config1=5/"), [0x1234, 5, 0]);
    let energy = event(&machine, "power/energy-pkg/");
    assert_eq!((energy.unit, energy.reach), (Unit::Other("Joules".to_owned()), Reach::SharedBy(vec![0])));
    assert!((energy.scale - 2.328_306_436_538_696e-10).abs() < 1e-20);
}

#[test]
fn tracepoints_have_the_kernels_number() {
    let (machine, _root) = ice_lake();
    let switch = event(&machine, "sched:sched_switch:u");
    assert_eq!(
        switch.attrs[0],
        Attr {
            kind: 2,
            configs: [316, 0, 0],
            exclude_kernel: true,
            exclude_hypervisor: true,
            ..Attr::default()
        }
    );
    assert_eq!(switch.name, "sched:sched_switch:u");
}

#[test]
fn missing_names_come_with_suggestions() {
    let (machine, _root) = ice_lake();
    assert_eq!(error(&machine, "cylces"), "there is no event `cylces`; similar: cycles");
    assert!(error(&machine, "sched:sched_swich").contains("similar: sched:sched_switch"));
    assert!(error(&machine, "cpu/evnt=1/").contains("has no `evnt`; similar: event"));
    assert!(error(&machine, "cpu/event=0x100/").contains("too large"));
    assert!(error(&machine, "cpu/odd/").contains("needs further values"));
    assert!(error(&machine, "gpu/event=1/").contains("it has cpu, power, software"));
    assert!(error(&machine, "cpu/..%2f=1/").contains("has no"));
    let (bare, _root) = super::tests::machine(&[]);
    assert!(!bare.has_cpu_counters());
    let hidden = bare.resolve(&crate::parse("sched:sched_switch").unwrap()[0]).unwrap_err();
    assert_eq!(hidden.fix(), Some("sudo mount -t tracefs tracefs /sys/kernel/tracing"));
    assert!(bare.tracepoints_missing().is_some() && machine.tracepoints_missing().is_none());
}

#[test]
fn each_of_two_kinds_of_cpus_has_its_own_attributes() {
    let files = [
        ("cpu_core/type", "4\n"),
        ("cpu_core/format/event", "config:0-7\n"),
        ("cpu_core/events/slots", "event=0x4\n"),
        ("cpu_atom/type", "10\n"),
        ("cpu_atom/format/event", "config:0-7\n"),
        ("cpu_atom/events/slots", "event=0x5\n"),
    ];
    let files = files.map(|(path, text)| (format!("{DEVICES}/{path}"), text));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let (machine, _root) = machine(&files);
    let configs = |text: &str| {
        event(&machine, text).attrs.iter().map(|attr| (attr.kind, attr.configs[0])).collect::<Vec<_>>()
    };
    assert_eq!(configs("instructions"), [(0, 10 << 32 | 1), (0, 4 << 32 | 1)]);
    assert_eq!(configs("r3c"), [(10, 0x3c), (4, 0x3c)]);
    assert_eq!(configs("slots"), [(10, 5), (4, 4)]);
    assert_eq!(configs("page-faults"), [(1, 2)]);
}

#[test]
fn every_listed_name_is_unique_and_resolves() {
    let (machine, _root) = ice_lake();
    let list = machine.list();
    assert!(list.iter().any(|event| event.name == "cpu/topdown-retiring/"));
    assert!(list.iter().any(|event| event.name == "sched:sched_switch"));
    assert!(!list.iter().any(|event| event.name.contains(".scale") || event.name.contains("enable")));
    let mut names: Vec<&str> = list.iter().map(|event| event.name.as_str()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    for listed in &list {
        assert!(!listed.description.is_empty());
        assert_eq!(event(&machine, &listed.name).attrs, listed.attrs, "{}", listed.name);
    }
}

#[test]
fn fields_of_tracepoints_are_found_by_name() {
    let format = "name: sched_waking\nID: 375\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                  \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n";
    let (machine, _root) = machine(&[("sys/kernel/tracing/events/sched/sched_waking/format", format)]);
    let field = |name: &str| machine.field_of_tracepoint("sched", "sched_waking", name);
    assert_eq!([field("pid"), field("comm"), field("common_pid")], [Some(24), Some(8), Some(4)]);
    assert_eq!([field("prio"), machine.field_of_tracepoint("sched", "none", "pid")], [None, None]);
}
