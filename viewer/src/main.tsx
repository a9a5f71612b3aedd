// Starts the viewer: loads the payload, then shows the application or an error.

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
    const text = problem instanceof PayloadError ? problem.message : `Cannot show the profile: ${String(problem)}`;
    if (!(problem instanceof PayloadError)) console.error(problem);
    render(<div class="message" role="alert"><h1>Cannot open this profile</h1><p>{text}</p></div>, root);
  }
}

void start();
