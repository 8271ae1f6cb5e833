// @long
import { execFile } from "node:child_process";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished } from "vitest";
import { packPackage } from "../_built.ts";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { temporaryProject } from "./_fixture.ts";
import { docker, freePort } from "./_local-project.ts";

const { describe, it } = requirement("docker");
const run = promisify(execFile);
const SVC = new URL("../../dist/cli.js", import.meta.url).pathname;

const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";
import { greet } from "@x/greet";
const greeter = defineAgent({
  name: "Greeter",
  version: "1.0.0",
  methods: { job_start: { run: ({ job }) => job.step("greet", () => greet("workspace")) } },
});
export default createServer({ agents: [greeter] });
`;

/** How a workspace's lock file is written, and how its packages name each other. */
const MANAGERS = [
  ["npm@11", "*", ["npm", "install", "--package-lock-only", "--no-audit", "--no-fund"]],
  ["pnpm@10.4.1", "workspace:*", ["npx", "--yes", "pnpm@10.4.1", "install", "--lockfile-only"]],
  [
    "yarn@4.18.1",
    "workspace:*",
    ["npx", "--yes", "@yarnpkg/cli-dist@4.18.1", "install", "--mode=update-lockfile"],
  ],
  ["bun@1.4.5", "workspace:*", ["npx", "--yes", "bun@1.4.5", "install", "--lockfile-only"]],
] as const;

describe("a package of a workspace", () => {
  for (const [manager, version, [command, ...lock]] of shareOf(MANAGERS, MANAGERS.length))
    it(`is built from the workspace's root, with the packages that it needs and no other: ${manager}`, async () => {
      const json = (value: object) => JSON.stringify(value, null, 2);
      const root = temporaryProject({
        "package.json": json({
          ...{ name: "repository", private: true, workspaces: ["packages/*", "apps/*"] },
          ...(manager.startsWith("npm") ? {} : { packageManager: manager }),
        }),
        ...(manager.startsWith("pnpm") && {
          "pnpm-workspace.yaml": "packages:\n  - packages/*\n  - apps/*\n",
        }),
        ...(manager.startsWith("yarn") && { "yarn.lock": "" }),
        "packages/greet/package.json": json({
          ...{ name: "@x/greet", version: "1.0.0", type: "module", exports: "./dist/index.js" },
          scripts: { build: "mkdir -p dist && cp src/index.js dist/index.js" },
          dependencies: { ms: "2.1.3" },
        }),
        "packages/greet/src/index.js":
          'import ms from "ms";\nexport const greet = (name) => "Hello, " + name + ", " + ms(60000);\n',
        "packages/unused/package.json": json({
          ...{ name: "@x/unused", version: "1.0.0" },
          dependencies: { picocolors: "1.1.1" },
        }),
        "packages/unused/secret-plan.js": "",
        "apps/agent/src/controller.ts": CONTROLLER,
      });
      const cwd = join(root, "apps/agent");
      const { tarball } = await packPackage();
      copyFileSync(tarball, join(cwd, basename(tarball)));
      const dependencies = {
        "agent-control-service": `file:./${basename(tarball)}`,
        "@x/greet": version,
        valibot: "^1.5.0",
      };
      writeFileSync(
        join(cwd, "package.json"),
        json({ ...{ name: "agent", version: "1.0.0", type: "module" }, dependencies }),
      );
      await run(command, lock, { cwd: root });
      const name = `w${Math.random().toString(36).slice(2, 8)}`;
      const port = String(await freePort());
      const target = ["--name", name, "--port", port];
      const env = { ...process.env, CI: "1", XDG_CONFIG_HOME: join(root, ".config") };
      const svc = async (args: readonly string[], more = {}) =>
        (await run(process.execPath, [SVC, ...args], { cwd, env: { ...env, ...more } })).stdout;
      const stop = ["deploy", "local", "--stop", "--yes", "--accept-data-loss", ...target];
      onTestFinished(async () => void (await svc(stop)));

      const generate = ["--generate-api-key", "--generate-rsa"];
      await svc(["deploy", "local", "--yes", "--no-check", ...generate, "--timeout", "90", ...target]);
      const SERVICE_API_KEY = readFileSync(
        join(cwd, `.deployment/secrets/${name}-dev/SERVICE_API_KEY`),
        "utf8",
      );
      const SERVICE_URL = `http://127.0.0.1:${port}`;
      const job = await svc(["job", "start", "greeter", "--wait"], { SERVICE_API_KEY, SERVICE_URL });
      const files = docker(
        ...["run", "--rm", "--entrypoint", "sh", `${name}-dev:local-test`, "-c"],
        "cd /app && find . -name 'ms' -o -name 'picocolors' -o -name 'secret-plan.js' -o -name '.npmrc' -o -name controller.ts",
      );

      const sbom = docker(
        ...[
          "run",
          "--rm",
          "--entrypoint",
          "cat",
          `${name}-dev:local-test`,
          "/app/node_modules/sbom.cdx.json",
        ],
      );
      const listed = (JSON.parse(sbom) as { components: { purl: string }[] }).components.map(
        ({ purl }) => purl,
      );

      expect(job).toMatch(/completed: Hello, workspace, 1m/);
      expect(files).toContain("./apps/agent/src/controller.ts");
      expect(files).toMatch(/\/ms$/m);
      expect(files).not.toMatch(/picocolors|secret-plan|npmrc/);
      expect(listed).toEqual(expect.arrayContaining(["pkg:npm/ms@2.1.3", "pkg:npm/%40x/greet@1.0.0"]));
      expect(listed.join()).toMatch(/pkg:npm\/agent-control-service@.*pkg:npm\/valibot@/);
      expect(listed.join()).not.toMatch(/picocolors|%40x\/unused/);
    }, 600_000);
});
