import { chmodSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { build } from "rolldown";
import { writeTypes } from "./areas/write-types.ts";
import config from "./rolldown.config.ts";
import { PLATFORMS } from "./src/cli/deploy/built-in.ts";
import { editorSchema } from "./src/deploy/file/editor-schema.ts";
import { writeTemplates } from "./write-templates.ts";

/** Builds `dist`: the templates, the types from TypeScript, the schema of deploy.yaml, the rest as rolldown.config.ts says; then links `svc` to it. */
rmSync("dist", { recursive: true, force: true });
writeTemplates("dist/templates");
await build(config);
writeTypes("dist");

// One after the other: of two imports of one module at the same time, jiti gives the second an unfinished one.
const platforms = new Set<Awaited<ReturnType<(typeof PLATFORMS)[string]>>["default"]>();
for (const load of Object.values(PLATFORMS)) platforms.add((await load()).default);
writeFileSync("dist/deploy.schema.json", `${JSON.stringify(editorSchema([...platforms]), null, 1)}\n`);

const svc = "node_modules/.bin/svc";
chmodSync("dist/cli.js", 0o755);
rmSync(svc, { force: true });
symlinkSync("../../dist/cli.js", svc);
