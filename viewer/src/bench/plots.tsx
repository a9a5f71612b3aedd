// Plots of runs: the pairs of a comparison along one axis, and all runs in order.

import { amount } from '../format.ts';
import type { Comparison, Metric } from './results.ts';
import { change, roundValues, scale } from './scale.ts';

const WIDTH = 900, EDGE = 24;
const STRIP = { top: 8, bottom: 118, height: 142 };
const RUNS = { left: 112, top: 10, bottom: 210, height: 236 };

/** Lines are thin: these colours stand out from the page and from each other, also with colour blindness. */
const LIGHT = ['#0072b2', '#d55e00', '#007a5a', '#a8508a', '#8a6100', '#5c626d'], DARK = ['#56b4e9', '#f09a48', '#3fc79a', '#e09cc8', '#f0e442', '#a3a9b4'];

/** The colour of a command; all after the first few share one. */
export function commandColour(command: number, dark: boolean): string {
  const colours = dark ? DARK : LIGHT;
  return colours[Math.min(command, colours.length - 1)]!;
}

/** The values with different labels. */
const unlike = (values: readonly number[], label: (value: number) => string): number[] => values.filter((value, at) => at === 0 || label(value) !== label(values[at - 1]!));

/**
 * Each dot is a pair, from the first round at the top to the last. Line and band are estimate and interval,
 * grey is the margin.
 */
export function StripPlot({ comparison, name, margin }: { comparison: Comparison; name: string; margin: number }) {
  const { dots, ratio, low, high, words, verdict } = comparison;
  const ends = [low, high, ratio].filter(end => end !== undefined && end > 0).map(end => Math.log(end!));
  const axis = scale([...dots.map(Math.log), ...ends], EDGE, WIDTH - EDGE, [-Math.log1p(margin), Math.log1p(margin)]);
  if (!axis) return <p class="quiet">{name}: no pairs for this metric.</p>;
  const { top, bottom, height } = STRIP;
  const x = (of: number): number => axis.at(Math.log(of));
  const round = roundValues(Math.exp(axis.low) - 1, Math.exp(axis.high) - 1, 6).map(part => 1 + part).filter(tick => tick > 0);
  const ticks = unlike(round.length > 1 ? round : [axis.low, axis.high].map(Math.exp), change);
  const anchor = (at: number): 'start' | 'end' | 'middle' => (at < EDGE + 60 ? 'start' : at > WIDTH - EDGE - 60 ? 'end' : 'middle');
  return (
    <svg class="plot" viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={`${name}: ${verdict}, ${words}; ${dots.length} pairs`}>
      <rect class="margin" x={x(1 / (1 + margin))} y={top} width={Math.max(.5, x(1 + margin) - x(1 / (1 + margin)))} height={bottom - top} />
      <line class="none" x1={x(1)} x2={x(1)} y1={top} y2={bottom} />
      {low !== undefined && high !== undefined && low > 0 && <rect class="band" x={x(low)} y={top} width={Math.max(.5, x(high) - x(low))} height={bottom - top} />}
      {ratio !== undefined && ratio > 0 && <line class="estimate" x1={x(ratio)} x2={x(ratio)} y1={top} y2={bottom} />}
      {dots.map((dot, at) => (
        <circle key={at} class="dot" cx={x(dot)} cy={top + 6 + (at + .5) / dots.length * (bottom - top - 12)} r={dots.length > 300 ? 1.6 : 3}><title>pair {at + 1}: {change(dot)}</title></circle>
      ))}
      <line class="axis" x1={EDGE} x2={WIDTH - EDGE} y1={bottom} y2={bottom} />
      {ticks.map(tick => <text key={tick} class="tick" x={x(tick)} y={bottom + 17} text-anchor={anchor(x(tick))}>{change(tick)}</text>)}
    </svg>
  );
}

/** All runs of all commands, by round. */
export function RunsPlot({ metric, names, dark }: { metric: Metric; names: readonly string[]; dark: boolean }) {
  const { runs, unit } = metric, { left, top, bottom, height } = RUNS;
  const rounds = Math.max(0, ...runs.map(of => of.length));
  const axis = scale(runs.flat().filter(value => value !== undefined), bottom, top);
  if (!axis || !rounds) return <p class="quiet">This metric has no per-run values.</p>;
  const values = roundValues(axis.low, axis.high, 5), each = Math.max(1, ...roundValues(0, rounds, 8).slice(1, 2).map(Math.ceil));
  const x = (round: number): number => left + (round + .5) / rounds * (WIDTH - EDGE - left);
  return (
    <svg class="plot" viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={`${metric.name} of ${rounds} rounds, from ${amount(axis.low, unit)} to ${amount(axis.high, unit)}`}>
      <line class="axis" x1={left} x2={WIDTH - EDGE} y1={bottom} y2={bottom} />
      {unlike(values.length > 1 ? values : [axis.low, axis.high], value => amount(value, unit)).map(value => <text key={value} class="tick" x={left - 8} y={axis.at(value) + 4} text-anchor="end">{amount(value, unit)}</text>)}
      <text class="tick" x={x(0)} y={bottom + 17} text-anchor="start">round 1</text>
      {Array.from({ length: rounds }, (_, at) => at).filter(at => at > 0 && (at + 1) % each === 0 && x(at) - x(0) > 70).map(at => <text key={`r${at}`} class="tick" x={x(at)} y={bottom + 17} text-anchor="middle">{at + 1}</text>)}
      {runs.map((of, command) => (
        <g key={command} style={{ color: commandColour(command, dark) }}>
          <polyline class="course" points={of.flatMap((value, round) => (value === undefined ? [] : [`${x(round).toFixed(1)},${axis.at(value).toFixed(1)}`])).join(' ')} />
          {of.map((value, round) => value !== undefined && <circle key={round} class="run" cx={x(round)} cy={axis.at(value)} r={rounds > 300 ? 1.6 : 3}><title>{names[command]}, round {round + 1}: {amount(value, unit)}</title></circle>)}
        </g>
      ))}
    </svg>
  );
}
