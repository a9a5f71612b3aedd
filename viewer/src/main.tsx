// Starts the viewer: loads the profile, then shows the application or what went wrong.

import { render } from 'preact';
import { App } from './app.tsx';
import { BenchApp } from './bench/app.tsx';
import { PayloadError } from './container.ts';
import { DiffApp } from './diff/app.tsx';
import { load, type Loaded } from './load.ts';
import './style.css';
import './print.css';

function shown(loaded: Loaded) {
  switch (loaded.kind) {
    case 'profile': return <App {...loaded} />;
    case 'changes': return <DiffApp {...loaded} />;
    case 'results': return <BenchApp {...loaded} />;
  }
}

async function start(): Promise<void> {
  const root = document.getElementById('app') ?? document.body.appendChild(document.createElement('div'));
  root.id = 'app';
  render(<p class="message" role="status">Opening the profile …</p>, root);
  try {
    const loaded = await load();
    performance.mark('whyslow-loaded');
    render(shown(loaded), root);
    performance.mark('whyslow-shown');
  } catch (problem) {
    const text = problem instanceof PayloadError ? problem.message : `The profile cannot be shown: ${String(problem)}`;
    if (!(problem instanceof PayloadError)) console.error(problem);
    render(<div class="message" role="alert"><h1>This profile cannot be opened</h1><p>{text}</p></div>, root);
  }
}

void start();
