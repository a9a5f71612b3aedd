// Results of `whyslow bench` with numbers that can be checked by hand: the second command takes 10 % less
// wall time in each pair, the third is undecided.

import { container } from './make-payload.mjs';

const ROUNDS = 12;

/** `commands`: how many, 1 to 3; `damage`: a comparison with a command that does not exist. */
export function measured({ commands = 3, damage = false } = {}) {
  const names = ['./app old', './app <new>', './app --other'].slice(0, commands);
  const factor = (command, round) => [1, .9 * (1 + (round % 3 - 1) / 100), 1 + (round % 5 - 2) / 20][command];
  const runs = of => names.map((_, command) => Array.from({ length: ROUNDS }, (_, round) => of(command, round)));
  const summary = values => {
    const sorted = [...values].sort((a, b) => a - b);
    return [sorted[6], values.reduce((sum, value) => sum + value, 0) / values.length, 1e6, sorted[0], sorted.at(-1)];
  };
  const metric = (name, unit, decides, of, judged) => {
    const values = runs(of);
    const comparisons = names.slice(1).map((_, at) => ({
      baseline: 0, candidate: damage ? 9 : at + 1, ...judged[at], pairs: ROUNDS, dots: values[at + 1].map((value, round) => value / values[0][round]),
    }));
    return { name, unit, decides, runs: values, summaries: values.map(summary), comparisons };
  };
  const undecided = { ratio: 1, low: .96, high: 1.04, words: '1.000 (0.960 to 1.040)', verdict: 'undecided' };
  const bench = {
    file: 'result.json', margin: .01, began_unix_s: 1763164800, cpu: 'a CPU', machine: 'the machine: governor performance',
    answers: names.slice(1).map((name, at) => at === 0
      ? { verdict: 'faster', sentence: '`./app <new>` is faster than `./app old`: -10.0 % wall time (-10.6 % to -9.4 %)', basis: '12 pairs, 95 % confidence' }
      : { verdict: 'undecided', sentence: 'Undecided: `./app --other` has 0.0 % wall time compared with `./app old` (-4.0 % to +4.0 %)', basis: '12 pairs' }),
    more: ['`./app <new>` is the fastest.'],
    commands: names.map(name => ({ name, command: name })),
    remarks: [{ severity: 'warning', message: 'the machine was busy', fix: 'end what else runs' }],
    metrics: [
      metric('wall-time', 1, true, (command, round) => 1e8 * (1 + round / 100) * factor(command, round), [{ ratio: .9, low: .894, high: .906, words: '0.900 (0.894 to 0.906)', verdict: 'faster' }, undecided]),
      metric('max-resident', 2, false, command => 12 * 1024 ** 2 * (1 + command), [{ ratio: 2, low: 2, high: 2, words: '2.000 (2.000 to 2.000)', verdict: 'more' }, { ratio: 3, low: 3, high: 3, words: '3.000', verdict: 'more' }]),
    ],
  };
  return container({ bench }, {});
}
