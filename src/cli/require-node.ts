const { bun, deno, node = "" } = process.versions as Readonly<Record<string, string | undefined>>;
const [major = 0, minor = 0] = node.split(".").map(Number);
const other = bun ? `Bun ${bun}` : deno ? `Deno ${deno}` : undefined;

// Imported before everything else: later imports would fail with an unhelpful stack.
if (other !== undefined || major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(`svc needs Node.js 20.19 or later, and this is ${other ?? `Node.js ${node}`}.\n`);
  process.exit(1);
}
