// The size of a file of 1,024 bytes: two crates, and debug information that belongs to no function.

import { NONE, Payload } from './make-payload.mjs';

export function sizes() {
  const p = new Payload();
  p.context = { ...p.context, command: ['/bin/app'], file: 'size.whyslow', duration_ns: 0 };
  const code = p.thread(p.process(0, 'code'), 0, '.text'), debug = p.thread(p.process(6, 'debug information'), 1, '.debug_info');
  const program = p.module('/bin/app', 1), size = p.metric('file-size', 2);
  const group = (name, kind) => p.stack(NONE, p.location(NONE, 0, [[p.fn(name, name, kind, undefined, 0, NONE), undefined, 0]]));
  const app = group('app', 'yours'), dep = group('dep', 'dependency'), none = group('[debug information]', 'unknown');
  const add = (thread, parent, name, crate, kind, bytes, at) => p.sample(size, 0, thread, p.stack(parent, p.location(at ? program : NONE, at, [[p.fn(name, crate, kind, undefined, 0, program), undefined, 0]])), bytes);
  add(code, app, 'app::parse', 'app', 'yours', 384, 0x1000);
  add(code, app, 'app::hash', 'app', 'yours', 128, 0x2000);
  add(code, dep, 'dep::run', 'dep', 'dependency', 128, 0x3000);
  add(debug, none, '.debug_info', '[debug information]', 'unknown', 384, 0);
  return p.container();
}
