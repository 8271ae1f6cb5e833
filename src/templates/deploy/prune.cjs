// Runs in the image, after the production dependencies are installed. Package managers also install optional peers
// that only development asks for; here what no production dependency needs is removed, and all source maps.
const fs = require("node:fs");
const path = require("node:path");

const read = (folder) => JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));

const find = (name, from) => {
  for (let at = from; ; at = path.dirname(at)) {
    const folder = path.join(at, "node_modules", name);
    if (fs.existsSync(path.join(folder, "package.json"))) return fs.realpathSync(folder);
    if (at === path.dirname(at)) return undefined;
  }
};

const used = new Set();
const visit = (folder) => {
  const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta } = read(folder);
  const peers = Object.keys(peerDependencies ?? {}).filter((name) => !peerDependenciesMeta?.[name]?.optional);
  for (const name of [...Object.keys({ ...dependencies, ...optionalDependencies }), ...peers]) {
    const found = find(name, folder);
    if (found === undefined || used.has(found)) continue;
    used.add(found);
    visit(found);
  }
};

// Where package managers keep packages that they link to.
const STORES = [".pnpm", ".bun"];
const folders = (folder) => fs.readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());

/** Removes the packages of a node_modules folder in which nothing is used. */
const prune = (modules) => {
  for (const { name } of fs.existsSync(modules) ? folders(modules) : []) {
    const folder = path.join(modules, name);
    if (name.startsWith("@")) {
      prune(folder);
      if (fs.readdirSync(folder).length === 0) fs.rmdirSync(folder);
    } else if (STORES.includes(name)) {
      for (const one of folders(folder)) {
        const inside = path.join(folder, one.name, "node_modules");
        if (fs.existsSync(inside)) prune(inside);
      }
    } else if (!name.startsWith(".")) {
      const inside = (one) => one === folder || one.startsWith(folder + path.sep);
      if (![...used].some(inside)) fs.rmSync(folder, { recursive: true });
    }
  }
};

/** Removes source maps, and links to what was removed. */
const sweep = (folder) => {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) sweep(file);
    else if (entry.isFile() ? entry.name.endsWith(".map") : entry.isSymbolicLink() && !fs.existsSync(file)) fs.rmSync(file);
  }
};

const top = fs.realpathSync(".");
fs.mkdirSync(path.join(top, "node_modules"), { recursive: true });
// The folders of a workspace's packages that the service needs: with the root's, their dependencies are used.
const members = process.argv.slice(1).map((folder) => path.join(top, folder));
const places = [top, ...members].map((folder) => path.join(folder, "node_modules"));
// The packages of a workspace whose root is the project are not here, so what they need is unknown.
if (members.length > 0 || !read(top).workspaces) {
  for (const folder of [top, ...members]) visit(folder);
  for (const modules of places) prune(modules);
}
for (const modules of places) if (fs.existsSync(modules)) sweep(modules);
// What people read beside the framework: no service needs it.
const own = find("agent-control-service", top);
for (const name of own === undefined ? [] : ["docs", "examples", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
  fs.rmSync(path.join(own, name), { recursive: true, force: true });

/** The packages that are left, as a bill of materials: CycloneDX 1.6. */
const packages = new Map();
const list = (folder) => {
  const { name, version, license } = read(folder);
  if (!name || !version) return;
  const id = `pkg:npm/${encodeURIComponent(name).replace("%2F", "/")}@${encodeURIComponent(version)}`;
  const [group, short] = name.startsWith("@") ? name.split("/") : [undefined, name];
  packages.set(id, {
    type: "library",
    "bom-ref": id,
    ...(group && { group }),
    name: short,
    version,
    ...(typeof license === "string" && { licenses: [{ license: { name: license } }] }),
    purl: id,
  });
};
const collect = (modules) => {
  for (const { name } of fs.existsSync(modules) ? folders(modules) : []) {
    const folder = path.join(modules, name);
    if (name.startsWith("@")) collect(folder);
    else if (STORES.includes(name)) for (const one of folders(folder)) collect(path.join(folder, one.name, "node_modules"));
    else if (fs.existsSync(path.join(folder, "package.json"))) list(folder);
    collect(path.join(folder, "node_modules"));
  }
};
for (const modules of places) collect(modules);
for (const folder of members) list(folder);
const node = process.versions.node;
const components = [
  { type: "platform", "bom-ref": `pkg:generic/node@${node}`, name: "node", version: node, purl: `pkg:generic/node@${node}` },
  ...[...packages.values()].sort((a, b) => (a["bom-ref"] < b["bom-ref"] ? -1 : 1)),
];
// The project is the last of them.
const { name = "service", version = "0.0.0" } = read(members.at(-1) ?? top);
const metadata = { component: { type: "application", "bom-ref": "service", name, version } };
const bom = { bomFormat: "CycloneDX", specVersion: "1.6", version: 1, metadata, components };
fs.writeFileSync(path.join(top, "node_modules", "sbom.cdx.json"), `${JSON.stringify(bom, null, 1)}\n`);
