// Shortens paths of source files: drops the folder of a registry or a toolchain.

const KEPT_IN = [
  /^\/rustc\/[0-9a-f]{40}\//,
  /^.*\/\.rustup\/toolchains\/[^/]+\/lib\/rustlib\/src\/rust\//,
  /^.*\/\.cargo\/registry\/src\/[^/]+\//,
  /^.*\/\.cargo\/git\/checkouts\//,
];
const LONG = 56;

/** `/home/me/.cargo/registry/src/registry-0123456789abcdef/ignore-0.4.23/src/walk.rs:12` → `ignore-0.4.23/src/walk.rs:12`. */
export function shortPath(path: string): string {
  if (path.length > 4096) return path;
  const place = KEPT_IN.find(pattern => pattern.test(path));
  const short = place ? path.replace(place, '') : path;
  if (short.length <= LONG) return short;
  // The end says most.
  const parts = short.split('/');
  let end = parts.pop() ?? '';
  while (parts.length > 0 && end.length + parts[parts.length - 1]!.length < LONG) end = `${parts.pop()}/${end}`;
  return parts.length > 0 ? `…/${end}` : end;
}
