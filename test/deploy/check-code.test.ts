import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findBuild } from "../_built.ts";
import { svc as deploy, type Ran } from "./_cli.ts";
import { type Stage, stage, writeAll } from "./_fixture.ts";

const build = await findBuild();
const self = [process.execPath, join(build, "dist/cli.js")];

const GOOD = `
import { createServer, defineAgent } from "agent-control-service";
const methods = { job_start: { run: async () => "done" } };
export default createServer({ agents: [defineAgent({ name: "Payer", version: "1.0.0", methods })] });
`;
const BAD = `import "not-in-this-project";${GOOD}`;
const CONFIG = ".deployment/config.yaml";

/** A project that has this controller, and the package. */
async function projectWith(controller: string, files: Record<string, string> = {}): Promise<Stage> {
  const at = await stage();
  mkdirSync(join(at.cwd, "node_modules"));
  symlinkSync(build, join(at.cwd, "node_modules/agent-control-service"));
  writeAll(at.cwd, { ...files, "src/controller.ts": controller });
  return at;
}

function svc(at: Stage, line: string, env: Record<string, string> = {}): Promise<Ran> {
  return deploy(at, `${line} --platform memory --name hello`, {
    self,
    env: { PATH: process.env.PATH, ...env },
  });
}

const images = (at: Stage) => Object.keys(at.world.read().services);

describe("code to be deployed", { timeout: 120_000 }, () => {
  it("ends up and plan with exit code 2 and the lines of svc check where it cannot be loaded", async () => {
    const at = await projectWith(BAD);

    const planned = await svc(at, "plan");
    const ran = await svc(at, "up --yes");
    const told = JSON.parse((await svc(at, "up --yes --json")).out) as { error_details: unknown };

    expect([planned.code, ran.code]).toEqual([2, 2]);
    expect(ran.err).toContain("Error: src/controller.ts could not be loaded");
    expect(ran.err).toContain(
      "not-in-this-project is not installed. Install it: npm install not-in-this-project",
    );
    expect(ran.err).toContain("Nothing was built or released");
    expect(ran.err).toContain("add --no-check");
    expect(told.error_details).toMatchObject({ code: "bad_code", exit_code: 2 });
    expect(images(at)).toEqual([]);
  });

  it("is deployed where it can be loaded, or with --no-check", async () => {
    const good = await projectWith(`console.log("{\\n}");${GOOD}`);
    const bad = await projectWith(BAD);

    const checked = await svc(good, "up --yes");
    const unchecked = await svc(bad, "up --yes --no-check");

    expect(checked, checked.err).toMatchObject({ code: 0 });
    expect(checked.err).not.toContain("was not checked");
    expect(unchecked, unchecked.err).toMatchObject({ code: 0 });
    expect([images(good), images(bad)]).toEqual([["hello-dev"], ["hello-dev"]]);
  });

  it("gets the plain variables; one that fails without a secret is reported, by its name, and deployed", async () => {
    const needy = `if (process.env.GREETING !== "hi") throw new Error("no greeting");
if (!process.env.PAY_TOKEN) throw new Error("no token");${GOOD}`;
    const config = `environment:\n  GREETING: hi\n  SERVICE_PUBLIC_URL: ${"$"}{APP_URL}\nsecrets:\n  - { name: PAY_TOKEN, value: s3cret-of-pay }\n`;
    const at = await projectWith(needy, { [CONFIG]: config });

    const { code, err } = await svc(at, "up --yes");

    expect(code, err).toBe(0);
    expect(err).toContain("src/controller.ts was not checked: it reads PAY_TOKEN, not set here");
    expect(err).toContain("no token");
    expect(err).not.toContain("s3cret-of-pay");
  });

  it("is rejected where no secret that is missing can be the cause, whether or not some are", async () => {
    const config = "environment: {}\nsecrets:\n  - { name: PAY_TOKEN, value: s3cret-of-pay }\n";
    const at = await projectWith(`throw new Error("broken");${GOOD}`, { [CONFIG]: config });

    const lacking = await svc(at, "up --yes");
    const leaking = await projectWith(`throw new Error("got " + process.env.PAY_TOKEN);${GOOD}`, {
      [CONFIG]: config,
    });
    const set = await svc(leaking, "up --yes", { PAY_TOKEN: "s3cret-of-pay" });

    expect([lacking.code, set.code]).toEqual([2, 2]);
    expect(lacking.err).toContain("broken");
    expect(set.err).toContain("got ");
    expect(set.err).not.toContain("s3cret-of-pay");
    expect([images(at), images(leaking)]).toEqual([[], []]);
  });

  it("may be written by hooks.beforeBuild: up checks it after the command, and plan only warns", async () => {
    const file = 'platform: memory\nhooks:\n  beforeBuild: echo "export const made = 1;" > src/made.ts\n';
    const at = await projectWith(`import "./made.ts";${GOOD}`, { "deploy.yaml": file });

    const planned = await svc(at, "plan");
    const ran = await svc(at, "up --yes");

    expect(planned, planned.err).toMatchObject({ code: 0 });
    expect(planned.err).toContain("src/controller.ts cannot be loaded before hooks.beforeBuild");
    expect(ran, ran.err).toMatchObject({ code: 0 });
    expect(ran.err).not.toContain("cannot be loaded");
  });
});
