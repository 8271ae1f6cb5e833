import { execFileSync } from "node:child_process";
import { chmodSync, rmSync, symlinkSync } from "node:fs";
import { build } from "rolldown";
import config from "./rolldown.config.ts";

/** Builds `dist`: the types from TypeScript, the rest as rolldown.config.ts says; then links `svc` to it. */
rmSync("dist", { recursive: true, force: true });
await build(config);
execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json"], {
  stdio: "inherit",
});

const svc = "node_modules/.bin/svc";
chmodSync("dist/cli.js", 0o755);
rmSync(svc, { force: true });
symlinkSync("../../dist/cli.js", svc);
