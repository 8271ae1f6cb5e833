import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createCommand,
  createReleases,
  createSecretStore,
  definePlatform,
} from "agent-control-service/deploy";
import { createDeployTools, platformContract } from "agent-control-service/testing";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { openJournal } from "../../src/deploy/journal.ts";
import { PROCESS_TIME, project, svc } from "../cli/_svc.ts";

const tools = createDeployTools({ cwd: tmpdir() });
const node = createCommand(tools, process.execPath, "-e");
const SHOW = "process.stdout.write(JSON.stringify(process.argv.slice(1)))";

describe("a command", () => {
  it("splits its text at spaces, and never a value", async () => {
    const name = "two words; $(none) of a 'shell'";

    const printed = await node`${SHOW} -- --name ${name} --port=${8000}
      --env ${["A=1 2", "B="]} ${[]} ${""} last`;

    expect(JSON.parse(printed)).toEqual(["--name", name, "--port=8000", "--env", "A=1 2", "B=", "", "last"]);
  });

  it("passes a secret on standard input", async () => {
    const echo = "process.stdin.pipe(process.stdout)";

    expect(await node.input("a secret\n")`${echo}`).toBe("a secret");
  });

  it("that fails is reported with its text and the program's last output", async () => {
    const sh = createCommand(tools, "sh");

    const failed = sh`-c ${"echo first >&2; echo no such thing >&2; exit 3"}`;

    await expect(failed).rejects.toMatchObject({
      code: "failed",
      message: "sh -c ended with exit code 3",
      detail: "no such thing",
      log: ["first", "no such thing"],
    });
  });
});

/** A platform with only what has no default, in memory. */
function smallPlatform() {
  const running: { record?: string } = {};
  const values = new Map<string, string>();
  const platform = definePlatform({
    name: "small",
    defaultRegion: "here",
    flags: v.object({}),
    connect: ({ serviceName }, given) => ({
      ...createReleases(given, {
        read: async () =>
          running.record === undefined
            ? undefined
            : { id: serviceName, url: "http://small.example", status: "running", record: running.record },
        run: async (_release, record) => Object.assign(running, { record }),
      }),
      ...createSecretStore(given, serviceName, {
        list: async () => ["another.SECRET.1.aa", ...values.keys()],
        put: async (name, value) => values.set(name, value),
        drop: async (name) => values.delete(name),
      }),
      preflight: async () => [],
      remove: () => given.journal({ step: "service.remove" }, async () => void delete running.record),
    }),
  });
  return { platform, values };
}

const TARGET = {
  name: "hello",
  environment: "dev",
  serviceName: "hello-dev",
  region: "here",
  projectId: undefined,
  port: 8000,
  flags: {},
  cwd: tmpdir(),
} as const;

platformContract("a platform of 20 lines", {
  describe,
  it,
  setup: async () => ({
    platform: smallPlatform().platform,
    target: TARGET,
    tools: createDeployTools({ cwd: tmpdir() }),
    images: ["small@sha256:1", "small@sha256:2"],
  }),
});

describe("a platform of a plugin", { timeout: PROCESS_TIME }, () => {
  it("is given the secrets of the environment, which loading its controller removes from the process", async () => {
    const secrets = {
      SERVICE_API_KEY: "a-key-of-the-environment-0123456789",
      SERVICE_PREVIOUS_API_KEY: "an-earlier-key-0123456789",
      SERVICE_ACCOUNT_API_KEY: "an-account-key-0123456789",
      SERVICE_DATABASE_URL: "postgres://me:secret@db.example.com/agents",
      DEPLOY_TOKEN: "a-token",
    };
    const cwd = await project({
      "package.json": '{ "name": "hello", "type": "module" }',
      "src/controller.ts": `
        import { createServer, defineAgent } from "agent-control-service";
        import * as v from "valibot";
        import { definePlatform, DeployError } from "agent-control-service/deploy";
        const agent = defineAgent({ name: "A", version: "1.0.0", methods: { job_start: { run: () => 1 } } });
        const platform = definePlatform({
          name: "small",
          defaultRegion: "here",
          flags: v.object({}),
          connect(target, { env }) {
            throw new DeployError("failed", ${JSON.stringify(Object.keys(secrets))}.filter((name) => env[name] === undefined).join() || "all are here");
          },
        });
        const plugin = { name: "small", platforms: { small: async () => ({ default: platform }) } };
        export default createServer({ agents: [agent], plugins: [plugin] });`,
    });

    const env = {
      ...secrets,
      SERVICE_ACCOUNT_WORKSPACE_ID: "w",
      SERVICE_ACCOUNT_API_URL: "http://127.0.0.1:9",
    };
    const planned = await svc(["deploy", "plan", "--platform", "small", "--json"], { cwd, env });

    const { error_message } = JSON.parse(planned.stdout) as { error_message: string };
    expect(error_message, planned.stderr).toBe("all are here");
  });
});

describe("a vault", () => {
  it("keeps every value, so that a rollback finds the one of its release", async () => {
    const { platform, values } = smallPlatform();
    const session = await platform.connect(TARGET, tools);

    const first = await session.putSecrets({ TOKEN: { value: "one", hash: "h1" } });
    const second = await session.putSecrets({ TOKEN: { value: "two", hash: "h2" } });

    expect(values.get(first.TOKEN?.ref ?? "")).toBe("one");
    expect(values.get(second.TOKEN?.ref ?? "")).toBe("two");
    expect(await session.listSecrets()).toEqual([{ ...second.TOKEN, hash: "h2" }]);
  });

  it("recognizes a value that a killed run may have stored incompletely, and continues with the previous one", async () => {
    const folder = mkdtempSync(join(tmpdir(), "svc-vault-"));
    const path = join(folder, "journal");
    const opened = () =>
      createDeployTools({ cwd: folder, journal: openJournal({ path, run: "r", now: () => new Date() }) });
    const { platform, values } = smallPlatform();
    const killed = await platform.connect(TARGET, opened());
    const whole = await killed.putSecrets({ WHOLE: { value: "one", hash: "h1" } });
    values.set("hello-dev.WHOLE.2.h2", "tw");
    values.set("hello-dev.ONLY.1.h3", "thr");
    const cut = openJournal({ path, run: "r", now: () => new Date() });
    for (const [name, ref] of [
      ["WHOLE", "hello-dev.WHOLE.2.h2"],
      ["ONLY", "hello-dev.ONLY.1.h3"],
    ])
      void cut.record(
        { step: `secret.put ${name}`, data: { ref, kept: false } },
        () => new Promise(() => {}),
      );

    const session = await platform.connect(TARGET, opened());
    const listed = await session.listSecrets();
    const again = await session.putSecrets({ ONLY: { value: "three", hash: "h3" } });
    await session.dropSecrets(["WHOLE", "ONLY"]);
    rmSync(folder, { recursive: true, force: true });

    expect(listed).toEqual([
      { name: "ONLY", ref: "hello-dev.ONLY.1.h3", hash: "h3", unfinished: true },
      { ...whole.WHOLE, hash: "h1" },
    ]);
    expect(again.ONLY?.ref).toBe("hello-dev.ONLY.2.h3");
    expect(values.size).toBe(0);
  });
});
