// Runs in the image, after the production dependencies are installed. Package managers also install what the framework names
// as an optional peer and only development asks for: a compiler, a client with which `svc deploy` calls a cloud. That is
// removed here, and so are the packages of workspace members that the service does not use, and source maps. All else stays.
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

const FRAMEWORK = "agent-control-service";

/** The folders of packages that a manifest names: what it needs, and what it can use. */
const needsOf = (folder) => {
  const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta } = read(folder);
  const needed = Object.keys({ ...dependencies, ...optionalDependencies });
  const usable = [];
  for (const name of Object.keys(peerDependencies ?? {})) (peerDependenciesMeta?.[name]?.optional ? usable : needed).push(name);
  const found = (names) => names.map((name) => find(name, folder)).filter((place) => place !== undefined);
  return { needed: found(needed), usable: found(usable) };
};

/** Adds what these folders need, and what that needs in turn; without what `isEnd` is true of. */
const reach = (folders, { into, alsoUsable = () => false, isEnd = () => false }) => {
  const left = [...folders];
  for (let folder = left.pop(); folder !== undefined; folder = left.pop()) {
    const { needed, usable } = needsOf(folder);
    for (const place of alsoUsable(folder) ? [...needed, ...usable] : needed) {
      if (into.has(place) || isEnd(place)) continue;
      into.add(place);
      left.push(place);
    }
  }
  return into;
};

// Where package managers keep packages that they link to.
const STORES = [".pnpm", ".bun"];
const folders = (folder) => fs.readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
const isWithin = (place, folder) => place === folder || place.startsWith(folder + path.sep);

/** The folders of workspace members that are linked to. */
const linkedMembers = (modules) =>
  fs.readdirSync(modules, { withFileTypes: true }).flatMap((entry) => {
    const folder = path.join(modules, entry.name);
    if (entry.isDirectory() && entry.name.startsWith("@")) return linkedMembers(folder);
    if (!entry.isSymbolicLink() || !fs.existsSync(path.join(folder, "package.json"))) return [];
    const target = fs.realpathSync(folder);
    return target.includes(`${path.sep}node_modules${path.sep}`) ? [] : [target];
  });

/** Removes packages in whose folders nothing is used; returns the folders that were removed. */
const prune = (packages, used) => {
  const removed = [];
  for (const folder of packages) {
    if ([...used].some((one) => isWithin(one, folder))) continue;
    fs.rmSync(folder, { recursive: true, force: true });
    removed.push(folder);
    const scope = path.dirname(folder);
    if (/^@/.test(path.basename(scope)) && fs.existsSync(scope) && fs.readdirSync(scope).length === 0) fs.rmdirSync(scope);
  }
  return removed;
};

/** Removes the source maps of files that are there, and links to what was removed. */
const sweep = (folder, removed) => {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) sweep(file, removed);
    else if (entry.isSymbolicLink()) {
      const target = path.resolve(folder, fs.readlinkSync(file));
      const isDead = path.basename(folder) === ".bin" && !fs.existsSync(file);
      if (isDead || removed.some((one) => isWithin(target, one))) fs.rmSync(file);
    } else if (entry.name.endsWith(".map") && fs.existsSync(file.slice(0, -".map".length))) fs.rmSync(file);
  }
};

const top = fs.realpathSync(".");
const modules = path.join(top, "node_modules");
fs.mkdirSync(modules, { recursive: true });
// The folders of a workspace's packages that the service needs: with the root's, their dependencies are used.
const members = process.argv.slice(1).map((folder) => path.join(top, folder));
const places = [top, ...members].map((folder) => path.join(folder, "node_modules"));
const own = find(FRAMEWORK, top) ?? members.map((folder) => find(FRAMEWORK, folder)).find(Boolean);
// The packages of a workspace whose root is the project are not here, so what they need is unknown.
let removed = [];
if (members.length > 0 || !read(top).workspaces) {
  const ofFramework = own === undefined ? new Set() : reach([own], { into: new Set([own]) });
  const used = reach([top, ...members], { into: new Set(), alsoUsable: (folder) => !ofFramework.has(folder) });
  const unused = linkedMembers(modules).filter((folder) => !used.has(folder) && !members.includes(folder));
  const asked = [...ofFramework].flatMap((folder) => needsOf(folder).usable);
  const unneeded = new Set([...asked, ...unused].filter((place) => !used.has(place)));
  reach(unneeded, { into: unneeded, isEnd: (place) => used.has(place) });
  removed = prune([...unneeded].filter((folder) => !unused.includes(folder)), used);
}
for (const folder of places) if (fs.existsSync(folder)) sweep(folder, removed);
// What people read beside the framework: no service needs it.
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
