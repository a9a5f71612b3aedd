// The heap: totals of the program, allocation sites in several orders, and details of the selected site.

import './panels.css';
import './heap.css';
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { search } from '../derive.ts';
import { bytes, count, duration, share } from '../format.ts';
import { bars, GROWTH_WORDS, inFlame, liveWords, margin, ordersOf, sites, sorted, type Bar, type Site } from '../heap.ts';
import { isPart, sitesIn } from '../heaptime.ts';
import { useMatches } from '../matches.ts';
import type { Model } from '../model.ts';
import type { PanelProps } from '../panel.ts';
import { NONE, type HeapColumn, type HeapFacts } from '../payload.ts';
import { timeRange } from '../state.ts';
import { limited, Name, Place, Share } from './cells.tsx';
import { HeapChart, HolderChoice, isChartShown } from './heapchart.tsx';
import { useRowMenu } from './rowmenu.tsx';
import { Rows, type Column } from './rows.tsx';

export function HeapPanel(props: PanelProps) {
  const { model, state, dispatch, dark } = props;
  const everything = useMemo(() => sites(model), [model]);
  const all = useMemo(() => sitesIn(model, state, everything), [everything, JSON.stringify([timeRange(state), state.threads])]);
  const facts = model.profile.heapFacts;
  const orders = useMemo(() => ordersOf(everything, facts?.isSnapshot ?? false), [everything]);
  const order = orders.find(({ id }) => id === state.panel['heap-order']) ?? orders[0]!;
  const rows = useMemo(() => sorted(all, order), [all, order]);
  const whole = useMemo(() => rows.reduce((sum, site) => sum + order.key(site), 0), [rows]);
  const chosen = Number(state.panel['heap-line'] ?? -1);
  const cursor = rows.findIndex(site => site.row === chosen);
  const totals = (column: HeapColumn): number => facts?.totals[column] ?? 0;

  const choose = (at: number): void => {
    const { row } = rows[at]!;
    dispatch({ ...inFlame(model, state, row), panel: { ...state.panel, 'heap-line': String(row) } }, 'heap-line');
  };
  const show = (at: number): void => {
    const metric = metricNamed(model, order.metric);
    dispatch({ ...inFlame(model, state, rows[at]!.row), tab: 'flame', ...(metric === undefined ? {} : { metric }), panel: { ...state.panel, 'heap-line': String(rows[at]!.row) } });
  };
  const menu = useRowMenu(props);
  const found = search(model, state);
  const matches = useMemo(() => {
    const isMatch = (site: Site): boolean => found.kind === 'found' && found.matched[model.profile.heap.function[site.row]!] === 1;
    return rows.flatMap((site, at) => (isMatch(site) ? [at] : []));
  }, [rows, found]);
  useMatches(matches, choose, matches.indexOf(cursor));
  const columns: Column[] = [
    { id: 'share', title: 'Share', width: '5rem', numeric: true, help: order.help },
    ...order.cells.map(({ title, width, help }) => ({ id: title, title, width, numeric: title !== 'Over time', ...(help ? { help } : {}) })),
    { id: 'line', title: 'Allocating function' },
    { id: 'place', title: 'Location', width: '20%' },
    ...(hasOwn(model) ? [{ id: 'own', title: 'Called from', width: '20%', help: 'The innermost line of your code on the stack, if it is a different line' }] : []),
  ];
  return (
    <div class="heap pane">
      {facts && <Totals facts={facts} showPeak={() => {
        const metric = metricNamed(model, 'live-at-peak');
        if (metric !== undefined) dispatch({ metric, tab: 'flame', zoom: [], brush: undefined, ranges: [] });
      }} />}
      <div class="tools">
        <div class="segments" role="group" aria-label="Sort by">
          {orders.map(({ id, title, help }) => (
            <button key={id} type="button" aria-pressed={id === order.id} title={help} onClick={() => dispatch({ panel: { ...state.panel, 'heap-order': id } })}>{title}</button>
          ))}
        </div>
        {model.live !== undefined && <HolderChoice state={state} dispatch={dispatch} />}
        <span class="quiet hint">{order.help} · Enter shows the site in the flame graph</span>
        <button type="button" disabled={cursor < 0} onClick={() => show(cursor)}>Show in flame graph</button>
      </div>
      {model.live !== undefined && isChartShown(state.panel['heap-chart']) && <HeapChart {...props} />}
      {isPart(state) && <p class="status quiet" role="status">Sites that allocated in the selected {timeRange(state) ? 'time' : 'threads'}. Allocations, bytes and temporary blocks count only the selection; peak, leaks and the rest cover the whole run.</p>}
      <div class="heap-body">
        <Rows
          label="Allocation sites"
          columns={columns}
          count={rows.length}
          cursor={cursor}
          reveal={`${order.id} ${chosen}`}
          onCursor={choose}
          onOpen={show}
          onMenu={(at, x, y) => menu.open({ fn: model.profile.heap.function[rows[at]!.row]!, place: placeOf(model, rows[at]!.row), x, y })}
          minWidth="800px"
          empty="Nothing recorded for this view."
          row={at => {
            const site = rows[at]!;
            const fn = model.profile.heap.function[site.row]!;
            return {
              key: site.row,
              cells: [
                <Share value={order.key(site)} whole={whole} />,
                ...order.cells.map(cell => cell.text(site, totals)),
                <Name model={model} fn={fn} dark={dark} />,
                <Place path={placeOf(model, site.row)} />,
                ...(hasOwn(model) ? [<Place path={ownPlace(model, site.row)} />] : []),
              ],
            };
          }}
        />
        <About model={model} site={cursor < 0 ? undefined : rows[cursor]} totals={totals} />
      </div>
      {menu.menu}
    </div>
  );
}

const some = (blocks: number): string => `${count(blocks)} ${blocks === 1 ? 'block' : 'blocks'}`;

function metricNamed(model: Model, name: string): number | undefined {
  for (let metric = 0; metric < model.profile.metrics.count; metric++) if (model.metricName(metric) === name) return metric;
  return undefined;
}

function placeOf(model: Model, row: number): string {
  const { file, line } = model.profile.heap;
  const path = model.text(file[row]!);
  return path && line[row] ? `${path}:${line[row]}` : path;
}

const hasOwn = (model: Model): boolean => model.profile.heap.ownFunction.some(fn => fn !== NONE);

/**
 * The user's line that a site allocates for: its location, else its function; empty when it is the site
 * itself.
 */
function ownPlace(model: Model, row: number): string {
  const { ownFunction, ownFile, ownLine } = model.profile.heap;
  if (ownFunction[row] === NONE) return '';
  const path = model.text(ownFile[row]!);
  return path ? `${path}:${ownLine[row]}` : model.name(ownFunction[row]!);
}

/** Totals of the whole program in one line. */
function Totals({ facts, showPeak }: { facts: HeapFacts; showPeak: () => void }) {
  const { totals } = facts;
  const about = facts.sampleBytes ? '≈ ' : '';
  const rough = (column: HeapColumn): string => margin(facts, column, totals[column]);
  const classes: [string, number][] = [['definitely', totals.definitely_lost_bytes], ['indirectly', totals.indirectly_lost_bytes], ['possibly', totals.possibly_lost_bytes]];
  const lost = classes.reduce((sum, [, size]) => sum + size, 0);
  return (
    <dl class="heap-totals" aria-label="The whole program">
      <Figure name="Peak" value={about + bytes(facts.peakBytes) + margin(facts, 'peak_bytes', facts.peakBytes)} detail={<button type="button" onClick={showPeak} title="Show the peak in the flame graph">at {duration(facts.peakTime)}</button>} />
      <Figure name="Allocated" value={about + bytes(totals.bytes_allocated) + rough('bytes_allocated')} detail={`${count(totals.allocations)} allocations${rough('allocations')}`} />
      <Figure name="Temporary" value={share(totals.temporary, totals.allocations)} detail={some(totals.temporary)} />
      <Figure name={liveWords(facts.isSnapshot).title} value={about + bytes(totals.live_at_exit_bytes) + rough('live_at_exit_bytes')} detail={some(totals.live_at_exit_blocks) + rough('live_at_exit_blocks')} />
      {facts.leaksChecked && <Figure name="Leaked" value={lost ? bytes(lost) : 'nothing'} isBad={totals.definitely_lost_bytes > 0}
        detail={lost ? classes.filter(([, size]) => size).map(([word, size]) => (size === lost ? word : `${word} ${bytes(size)}`)).join(' · ') : `${bytes(totals.reachable_bytes)} still reachable`} />}
      {facts.growth && facts.growth !== 'unknown' && <Figure name="Over time" value={facts.growth} isBad={facts.growth === 'unbounded'} detail="live bytes" />}
      {facts.sampleBytes && <Figure name="Estimated" value={`1 in ${bytes(facts.sampleBytes)}`} detail="sampled" />}
    </dl>
  );
}

function Figure({ name, value, detail, isBad = false }: { name: string; value: string; detail: string | JSX.Element; isBad?: boolean }) {
  return <div class={isBad ? 'bad' : undefined}><dt>{name}</dt><dd><b>{limited(value, 60)}</b> <span class="quiet">{detail}</span></dd></div>;
}

/** Details of the selected site, or of the whole program. */
function About({ model, site, totals }: { model: Model; site: Site | undefined; totals: (column: HeapColumn) => number }) {
  const numbers = site?.numbers ?? totals;
  const sizes = useMemo(() => bars(model, site?.row, 'size'), [model, site?.row]);
  const lifetimes = useMemo(() => bars(model, site?.row, 'lifetime'), [model, site?.row]);
  const tip = site?.advice;
  const blocks = (kind: 'definitely_lost' | 'indirectly_lost' | 'possibly_lost' | 'reachable' | 'suppressed'): string | undefined =>
    numbers(`${kind}_blocks`) ? `${bytes(numbers(`${kind}_bytes`))} in ${some(numbers(`${kind}_blocks`))}` : undefined;
  const own = site && model.profile.heap.ownFunction[site.row] !== NONE ? model.profile.heap.ownFunction[site.row]! : undefined;
  const facts: [string, string | undefined][] = [
    ['Called from', own === undefined ? undefined : `${limited(model.name(own), 160)} (${limited(ownPlace(model, site!.row), 240)})`],
    ['Stacks', site && count(model.profile.heap.stacks[site.row]!)],
    ['Mean size', bytes(numbers('bytes_allocated') / Math.max(1, numbers('allocations')))],
    ['Mean lifetime', duration(numbers('lifetime_ns') / Math.max(1, numbers('allocations')))],
    ['Freed by another thread', numbers('freed_elsewhere') ? count(numbers('freed_elsewhere')) : undefined],
    ['Live bytes over time', (site && GROWTH_WORDS[site.growth]) || undefined],
    ['Grown', numbers('grown') ? `${count(numbers('grown'))} times, ${bytes(numbers('bytes_copied'))} copied` : undefined],
    ['Never written', numbers('examined_bytes') ? `${bytes(numbers('unused_bytes'))} of ${bytes(numbers('examined_bytes'))}` : undefined],
    ['Definitely lost', blocks('definitely_lost')],
    ['Indirectly lost', blocks('indirectly_lost')],
    ['Possibly lost', blocks('possibly_lost')],
    ['Still reachable', blocks('reachable')],
    ['Suppressed', blocks('suppressed')],
  ];
  const name = site ? model.name(model.profile.heap.function[site.row]!) : 'The whole program';
  return (
    <section class="heap-about" aria-label="Details of the selected site" tabIndex={0}>
      <h2 dir="ltr" title={limited(name, 1200)}>{limited(name, 160)}</h2>
      {site && <p class="quiet" dir="ltr">{limited(placeOf(model, site.row), 240)}</p>}
      {tip && <p class="advice">{tip}</p>}
      <dl class="heap-facts">
        {facts.map(([name, value]) => value !== undefined && <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
      </dl>
      <Histogram title="Block sizes" bars={sizes} />
      <Histogram title="Lifetimes of freed blocks" bars={lifetimes} />
    </section>
  );
}

function Histogram({ title, bars }: { title: string; bars: readonly Bar[] }) {
  const most = bars.reduce((most, bar) => Math.max(most, bar.blocks), 0);
  if (!most) return null;
  return (
    <table class="histogram">
      <caption>{title}</caption>
      <tbody>
        {bars.map(({ label, blocks }) => (
          <tr key={label}>
            <th scope="row">{label}</th>
            <td><span class="histogram-bar" style={{ '--share': `${(100 * blocks / most).toFixed(2)}%` }}>{blocks ? count(blocks) : ''}</span></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
