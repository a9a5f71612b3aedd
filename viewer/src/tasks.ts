// Tasks of async Rust: their cost, their await chains, and the calls that block worker threads. Same result
// as `whyslow report FILE tasks`.

import { rowsOf, weightIn } from './aggregate.ts';
import { selection } from './derive.ts';
import { cpuMetric } from './elapsed.ts';
import { KIND, type Model } from './model.ts';
import { NONE, PLACE, type SampleTable } from './payload.ts';
import type { State } from './state.ts';
import { waitMetric } from './waits.ts';

/** Time on a CPU, its samples, and time in waits that block the thread. */
export interface TaskCost { cpu: number; samples: number; blocked: number }

/**
 * From the function that the executor polls to the innermost async function. `awaited` are those inside the task
 * that are the user's, and the last one.
 */
export interface TaskChain extends TaskCost { functions: number[]; awaited: number[] }

export interface TaskRow extends TaskCost { task: number; fn: number; executor: string; chains: TaskChain[] }

/** Calls of one function from one line that block worker threads; `task` is one of the tasks that make them. */
export interface BlockedWorker { executor: string; reason: string; call: number; charge: number; task: number; count: number; total: number; longest: number }

export interface Tasks {
  rows: TaskRow[];
  /** CPU time of tasks, of executors outside tasks, on threads that may block, and in total. */
  cpu: number; executor: number; blocking: number; total: number;
  hasWaits: boolean;
  blocked: BlockedWorker[];
}

// The limits of `whyslow report`: shorter waits delay little, and smaller totals are not worth reporting.
const SHORTEST = 1e6, LEAST = 10e6;

const all = ({ cpu, blocked }: TaskCost): number => cpu + blocked;

/** Visits the selected samples of a metric, with their weight in the selected time. */
function each(model: Model, state: State, metric: number, visit: (row: number, stack: number, weight: number, samples: SampleTable) => void): void {
  const samples = model.profile.samples[metric];
  if (!samples) return;
  const { threads, range, mask } = selection(model, { ...state, metric }), [first, last] = rowsOf(samples, range), weight = weightIn(samples, range);
  for (let row = first; row < last; row++) {
    const stack = samples.stack[row]!;
    if (stack === NONE || (threads && threads[samples.thread[row]!] !== 1) || (mask && mask[row] !== 1)) continue;
    const value = weight(row);
    if (value > 0) visit(row, stack, value, samples);
  }
}

export function tasksOf(model: Model, state: State): Tasks {
  const { chains, timeKinds, reasons } = model.profile, wait = waitMetric(model);
  const costs = new Map<number, TaskCost>(), out: Tasks = { rows: [], cpu: 0, executor: 0, blocking: 0, total: 0, hasWaits: wait >= 0, blocked: [] };
  const add = (chain: number, cpu: number, samples: number, blocked: number): void => {
    const cost = costs.get(chain);
    if (!cost) costs.set(chain, { cpu, samples, blocked });
    else { cost.cpu += cpu; cost.samples += samples; cost.blocked += blocked; }
  };
  each(model, state, cpuMetric(model.profile), (_, stack, value) => {
    const place = chains.ofStack[stack]!;
    out.total += value;
    if (place === PLACE.executor) out.executor += value;
    else if (place === PLACE.blocking) out.blocking += value;
    if (place < PLACE.chain) return;
    add(place - PLACE.chain, value, model.notSampled?.[stack] === 1 ? 0 : 1, 0);
    out.cpu += value;
  });
  each(model, state, wait, (row, stack, value, samples) => {
    const place = chains.ofStack[stack]!, kind = reasons[samples.reason![row]! - 1]?.kind, is = kind === undefined ? undefined : timeKinds[kind]!.state;
    if (place >= PLACE.chain && is !== 'queued' && is !== 'idle') add(place - PLACE.chain, 0, 0, value);
  });
  out.rows = rowsFrom(model, costs);
  out.blocked = blockedWorkers(model, state, wait);
  return out;
}

/** The functions of a chain; functions that look the same to the user are one. */
const functionsOf = ({ sameAs, profile: { chains } }: Model, chain: number): number[] =>
  Array.from(chains.steps.subarray(chains.functions[chain]!, chains.functions[chain + 1]!), fn => sameAs[fn]!);

function rowsFrom(model: Model, costs: ReadonlyMap<number, TaskCost>): TaskRow[] {
  const { tasks, chains } = model.profile, rows = new Map<number, TaskRow>();
  for (const [chain, cost] of costs) {
    const task = chains.task[chain]!;
    let row = rows.get(task);
    if (!row) rows.set(task, row = { task, fn: model.sameAs[tasks.function[task]!]!, executor: model.text(tasks.executor[task]!), cpu: 0, samples: 0, blocked: 0, chains: [] });
    row.cpu += cost.cpu;
    row.samples += cost.samples;
    row.blocked += cost.blocked;
    const functions = functionsOf(model, chain), inner = functions.slice(functions.indexOf(row.fn) + 1);
    row.chains.push({ ...cost, functions, awaited: inner.filter((fn, at) => at === inner.length - 1 || model.kind(fn) === KIND.yours) });
  }
  const byFunctions = (a: number[], b: number[]): number => {
    const at = a.findIndex((fn, step) => fn !== b[step]);
    return at < 0 ? a.length - b.length : a[at]! - (b[at] ?? -1);
  };
  for (const { chains } of rows.values()) chains.sort((a, b) => all(b) - all(a) || byFunctions(a.functions, b.functions));
  return [...rows.values()].sort((a, b) => all(b) - all(a) || (a.executor < b.executor ? -1 : a.executor > b.executor ? 1 : a.fn - b.fn));
}

function blockedWorkers(model: Model, state: State, wait: number): BlockedWorker[] {
  const { blocking, charges, chains, tasks, reasons } = model.profile;
  if (!blocking.count || wait < 0) return [];
  const calls = new Map(Array.from(blocking.stack, (stack, row) => [stack, model.sameAs[blocking.call[row]!]!])), found = new Map<string, BlockedWorker>();
  each(model, state, wait, (row, stack, value, samples) => {
    const call = calls.get(stack), charge = charges.ofStack[stack]!, place = chains.ofStack[stack]!;
    if (call === undefined || charge === NONE || place < PLACE.chain || value < SHORTEST) return;
    const task = chains.task[place - PLACE.chain]!, reason = reasons[samples.reason![row]! - 1]?.word ?? '';
    const key = [tasks.executor[task], call, charge, reason].join();
    let known = found.get(key);
    if (!known) found.set(key, known = { executor: model.text(tasks.executor[task]!), reason, call, charge, task, count: 0, total: 0, longest: 0 });
    known.count++;
    known.total += value;
    known.longest = Math.max(known.longest, value);
  });
  return [...found.values()].filter(({ total }) => total >= LEAST).sort((a, b) => b.total - a.total || charges.function[a.charge]! - charges.function[b.charge]! || charges.line[a.charge]! - charges.line[b.charge]! || a.call - b.call);
}
