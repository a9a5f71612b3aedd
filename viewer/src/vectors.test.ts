// Small profiles and the answers that Rust computes for them, whole and in part (`crates/whyslow-render/tests/vectors`):
// the viewer finds the same.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { criticalPath, RAN } from './critical.ts';
import type { CallTree } from './aggregate.ts';
import { callTree, foldedTree, functionTable, ownValues, sampleCount, weights, whole, type FoldedTree } from './derive.ts';
import { figuresOf, functionCosts } from './lines.ts';
import { lockRows, lockSites, waitGraph } from './locks.ts';
import { Model } from './model.ts';
import { parallelism } from './parallelism.ts';
import { decode, NONE } from './payload.ts';
import { START, type Range, type State } from './state.ts';
import { spanNames } from './spanrows.ts';
import { syscallRows } from './syscalls.ts';
import { tasksOf, type TaskCost } from './tasks.ts';
import { waitMetric } from './waits.ts';
import { waitRows } from './waittable.ts';

const folder = new URL('../vectors/', import.meta.url);

type Json = Record<string, unknown>;
interface Answers extends Json { time: [number, number] | null; threads: number[]; metrics: { name: string }[]; lines: Line[] }
interface Line { function: string; self?: number; total?: number; rows?: [file: string | null, line: number, self: number, total: number][] }
interface Vectors { selections: Answers[]; folded: { name: string; tree: unknown[] }[] }

/** Finds the answers of the viewer in the form of the vectors. */
class Asked {
  constructor(private readonly model: Model, private readonly state: State) {}

  private text(id: number): string | null { return id === NONE ? null : this.model.text(id); }

  /** A charge as function, file and line. */
  private place(charge: number): unknown {
    const { function: fn, file, line } = this.model.profile.charges;
    return charge === NONE ? null : [this.model.name(fn[charge]!), this.text(file[charge]!), line[charge]];
  }

  metricNamed(name: string): number { return this.model.profile.samples.findIndex((_, metric) => this.model.metricName(metric) === name); }

  metric(name: string): unknown {
    const { model } = this, state = { ...this.state, metric: this.metricNamed(name) }, tree = callTree(model, state), table = functionTable(model, state);
    const functions = [...table.total.keys()].filter(fn => table.total[fn]! > 0 && fn !== model.root).map(fn => [model.name(fn), table.self[fn], table.total[fn]]);
    const own = ownValues(model, state).own ?? new Float64Array();
    return {
      name, total: whole(model, state), samples: sampleCount(model, state), functions: sorted(functions),
      own: sorted([...own.keys()].filter(fn => own[fn]! > 0).map(fn => [model.name(fn), own[fn]])), tree: nodes(tree, node => model.name(tree.fn[node]!)), spans: this.spans(state),
    };
  }

  private spans(state: State): unknown {
    return spanNames(this.model, state).sort((a, b) => b.total - a.total || byText(a.name, b.name))
      .map(({ name, spans, total, p50, p95, max, inside, during }) => [name, spans.length, total, p50, p95, max, inside, during]);
  }

  /** The lines that Rust lists: those of the function itself. */
  lines({ function: name, rows }: Line): unknown {
    const { model, state } = this, fn = Array.from({ length: model.functionCount }, (_, fn) => fn).find(fn => model.name(fn) === name)!;
    const costs = functionCosts(model.profile, weights(model, state), of => model.sameAs[of] === fn), { self, total } = figuresOf(functionTable(model, state), fn, costs);
    if (!rows) return { function: name, ...(total > 0 ? { total } : {}) };
    const find = (file: string | null, line: number) => costs.lines.find(of => this.text(of.file) === file && of.line === line);
    return { function: name, self, total, rows: rows.map(([file, line]) => [file, line, find(file, line)?.self, find(file, line)?.total]) };
  }

  waits(): unknown {
    return waitRows(this.model, this.state).map(({ reason, charge, count, total, p50, p99, longest }) =>
      ({ reason: this.model.profile.reasons[reason]!.word, place: this.place(charge), count, total, p50, p99, longest }));
  }

  locks(): unknown {
    const { model, state } = this, { kind, address, process } = model.profile.locks;
    return {
      rows: lockRows(model, state).map(({ lock, count, total, p99, longest }) => {
        const sites = lockSites(model, state, lock);
        return {
          kind: model.text(kind[lock]!), address: Number.isNaN(address[lock]) ? null : address[lock], process: process[lock], count, total, p99, longest,
          waiters: sites.waiters.map(({ charge, count, total }) => ({ place: this.place(charge), thread: null, count, total })),
          holders: sites.holders.map(({ charge, thread, count, total }) => ({ place: this.place(charge), thread, count, total })),
        };
      }),
      graph: waitGraph(model, state, undefined),
    };
  }

  critical(): unknown {
    const { thread, steps, rows, total, ran } = criticalPath(this.model, this.state)!;
    const did = (did: number): string => (did === RAN ? 'ran' : this.model.profile.reasons[did]!.word);
    return {
      total, ran, ends_in: thread,
      steps: steps.map(({ thread, did: what, start, end, charge }) => [thread, did(what), start, end, this.place(charge)]),
      rows: rows.map(({ thread, did: what, total, charge }) => [thread, did(what), total, this.place(charge)]),
    };
  }

  parallelism(): unknown {
    const { exact, duration, levels } = parallelism(this.model, this.state)!;
    return {
      exact, duration,
      levels: levels.map(({ ns, samples, functions }) => ({ ns, samples, functions: functions.map(({ charge, elapsed, share }) => ({ place: this.place(charge), elapsed, share })) })),
    };
  }

  tasks(): unknown {
    const { model, state } = this, { rows, cpu, executor, blocking, total, blocked } = tasksOf(model, state), { tasks } = model.profile;
    const names = (functions: readonly number[]) => functions.map(fn => model.name(fn)), cost = ({ cpu, samples, blocked }: TaskCost) => [cpu, samples, blocked];
    return {
      rows: rows.map(row => ({
        executor: row.executor, task: model.name(row.fn), cost: cost(row),
        chains: row.chains.map(chain => ({ functions: names(chain.functions), awaited: names(chain.awaited), cost: cost(chain) })),
      })),
      cpu, executor, blocking, total,
      blocked: blocked.map(({ executor, reason, call, charge, task, count, total, longest }) =>
        ({ executor, reason, call: model.name(call), place: this.place(charge), task: model.name(tasks.function[task]!), count, total, longest })),
    };
  }

  syscalls(): unknown {
    return syscallRows(this.model, this.state).map(({ charge, fn: _, ...row }) => ({ ...row, place: this.place(charge) }));
  }

  folded(name: string): unknown {
    const { model } = this, tree: FoldedTree = foldedTree(model, { ...this.state, metric: this.metricNamed(name) });
    const nameOf = (node: number): string => (tree.hidden[node] ? model.foldName(tree.families[node]!, tree.hidden[node]!) : model.name(tree.fn[node]!));
    return { name, tree: nodes(tree, nameOf, node => (tree.times[node]! < 2 ? [] : [tree.frames[node], tree.times[node], tree.more[node] === 1])) };
  }
}

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
const sorted = <T>(rows: T[]): T[] => rows.sort((a, b) => byText(JSON.stringify(a), JSON.stringify(b)));

/** The nodes with a value, each before its children, which are sorted by name. */
function nodes({ parent, self, total }: CallTree, nameOf: (node: number) => string, more: (node: number) => unknown[] = () => []): unknown[] {
  const children = Array.from(parent, (): number[] => []), rows: unknown[] = [], open = [{ node: 0, depth: 0 }];
  for (let node = 1; node < parent.length; node++) if (total[node]! > 0) children[parent[node]!]!.push(node);
  for (let at = open.pop(); at; at = open.pop()) {
    const { node, depth } = at;
    if (node > 0) rows.push([depth, nameOf(node), self[node], total[node], ...more(node)]);
    open.push(...children[node]!.sort((a, b) => byText(nameOf(b), nameOf(a)) || b - a).map(child => ({ node: child, depth: depth + 1 })));
  }
  return rows;
}

/** Fractions are sums in another order. */
function same(found: unknown, expected: unknown, about: string): void {
  const rounded = (value: unknown): unknown => JSON.parse(JSON.stringify(value), (key, of: unknown) => (key === 'share' && typeof of === 'number' ? +of.toFixed(9) : of));
  assert.deepEqual(rounded(found), rounded(expected), about);
}

for (const file of readdirSync(folder).filter(name => name.endsWith('.json'))) {
  const { selections, folded } = JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Vectors;
  const model = new Model(decode(readFileSync(new URL(file.replace(/json$/, 'payload'), folder))));
  const stateOf = ({ time, threads }: Answers): State => ({ ...START, brush: time as Range ?? undefined, threads: threads.length ? threads : undefined });
  const name = file.replace('.json', '');

  for (const expected of selections) {
    const asked = new Asked(model, stateOf(expected)), part = `${name}, time ${expected.time}, threads ${expected.threads}`;
    test(`${part}: weights, functions and call trees`, () => { for (const metric of expected.metrics) same(asked.metric(metric.name), metric, metric.name); });
    test(`${part}: lines`, () => { for (const line of expected.lines) same(asked.lines(line), line, line.function); });
    test(`${part}: parallelism`, () => same(asked.parallelism(), expected.parallelism, part));
    test(`${part}: tasks`, () => same(asked.tasks(), expected.tasks, part));
    test(`${part}: system calls`, () => same(asked.syscalls(), expected.syscalls, part));
    if (waitMetric(model) < 0) continue;
    test(`${part}: waits`, () => same(asked.waits(), expected.waits, part));
    test(`${part}: locks`, () => same(asked.locks(), expected.locks, part));
    test(`${part}: critical path`, () => same(asked.critical(), expected.critical, part));
  }
  test(`${name}: folded trees`, () => { for (const tree of folded) same(new Asked(model, START).folded(tree.name), tree, tree.name); });
}
