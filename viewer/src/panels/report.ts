// Reads the `quality` object of a profile, which may come from another version: missing values are undefined.

import { clean } from '../names.ts';
import type { Quality } from '../payload.ts';

export interface Warning {
  severity: 'serious' | 'warning' | 'note';
  message: string;
  fix: string | undefined;
}

export interface QualityReport {
  /** `good`, `fair`, `poor`, or `unknown`. */
  grade: string;
  samples: number | undefined;
  expected: number | undefined;
  lost: number | undefined;
  lostRecords: number | undefined;
  throttled: number | undefined;
  /** Shares, from 0 to 1. */
  truncated: number | undefined;
  unresolved: number | undefined;
  nameless: number | undefined;
  missingKernel: number | undefined;
  source: string | undefined;
  kernel: string | undefined;
  frequency: number | undefined;
  incomplete: boolean;
  /** Worst first. */
  warnings: Warning[];
}

export function readQuality(quality: Quality): QualityReport {
  const number = (name: string): number | undefined => {
    const value = quality[name];
    return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
  };
  const grade = text(quality.grade) ?? '';
  return {
    grade: ['good', 'fair', 'poor'].includes(grade) ? grade : 'unknown',
    samples: number('samples'),
    expected: number('expected_samples'),
    lost: number('lost'),
    lostRecords: number('lost_records'),
    throttled: number('throttled'),
    truncated: number('truncated_share'),
    unresolved: number('unresolved_share'),
    nameless: number('nameless_share'),
    missingKernel: number('missing_kernel_share'),
    source: text(quality.source),
    kernel: text(quality.kernel),
    frequency: number('frequency_hz'),
    incomplete: quality.incomplete === true,
    warnings: Array.isArray(quality.warnings) ? quality.warnings.flatMap(readWarning) : [],
  };
}

function readWarning(value: unknown): Warning[] {
  if (typeof value !== 'object' || value === null) return [];
  const fields = value as Record<string, unknown>;
  const message = text(fields.message);
  if (message === undefined) return [];
  const severity = fields.severity === 'serious' || fields.severity === 'warning' ? fields.severity : 'note';
  return [{ severity, message, fix: text(fields.fix) }];
}

const text = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? clean(value) : undefined);
