// The active filters and transforms, each with a button that removes it.

import type { PanelProps } from './panel.ts';
import { libraryName } from './transforms.ts';

const WORDS = { focus: 'Focus on', hide: 'Without', merge: 'Merged', collapse: 'Collapsed', library: 'Collapsed library', subtree: 'Focus on one place of', node: 'Merged in one place' } as const;

export function Chips({ model, state, dispatch }: Pick<PanelProps, 'model' | 'state' | 'dispatch'>) {
  const { spans, transforms, finding } = state;
  if (!spans && !transforms.length && finding === undefined) return null;
  return (
    <ul class="chips" aria-label="Filters">
      {spans && <Chip word={`${spans.kind === 'one' ? 'Inside span' : 'Inside spans'}${spans.all ? ', all threads' : ''}`} name={model.text(model.profile.spans.name[spans.span]!)} remove={() => dispatch({ spans: undefined })} />}
      {finding !== undefined && <Chip word="Finding" name={model.text(model.profile.findings.title[finding]!)} remove={() => dispatch({ finding: undefined })} />}
      {transforms.map((transform, at) => (
        <Chip key={`${at} ${transform.kind} ${transform.fn}`} word={WORDS[transform.kind]} name={transform.kind === 'library' ? libraryName(model, transform.fn) : model.short(transform.fn)}
          remove={() => dispatch({ transforms: transforms.filter((_, other) => other !== at) })} />
      ))}
    </ul>
  );
}

function Chip({ word, name, remove }: { word: string; name: string; remove: () => void }) {
  const shown = name.slice(0, 100);
  return <li class="chip"><span class="quiet">{word}</span> <bdi title={name.slice(0, 500)}>{shown}</bdi> <button type="button" class="icon" aria-label={`Remove: ${word} ${shown}`} title="Remove" onClick={remove}>×</button></li>;
}
