// @alone
// @long
// @losses
import { beforeAll, describe, expect, it } from "vitest";
import { withoutNumbers } from "../../src/core/base/numbered-keys.ts";
import { rsaKeysIn } from "../../src/core/service/rsa-key.ts";
import { createServer } from "../../src/index.ts";
import { limitOf, shareOf } from "../_share.ts";
import { makeKey, payer } from "../http/_payer.ts";
import { SharedStore } from "../instances/_instances.ts";
import { FLOWS, type FlowPlatform } from "./flow/clouds.ts";
import { PushedImages } from "./flow/pushed-images.ts";
import { openSite } from "./flow/site.ts";
import type { Instance } from "./instances.ts";
import { type Command, runCommand } from "./killed/command.ts";
import { type Kill, killer } from "./killed/kill.ts";
import { frontFetch } from "./tools.ts";

type Key = "rsa" | "api";
const NAMES = { rsa: "SERVICE_RSA_PRIVATE_KEY", api: "SERVICE_API_KEY" } as const;
const PREVIOUS = { rsa: "SERVICE_PREVIOUS_RSA_PRIVATE_KEY", api: "SERVICE_PREVIOUS_API_KEY" } as const;
const FIRST = { rsa: makeKey().trim(), api: "planted-api-key-0123456789" };
const JOBS = ["job-1", "job-2"];
const SHARES = 12;

let runAndKill: Awaited<ReturnType<typeof killer>>;
beforeAll(async () => {
  runAndKill = await killer();
});

/** Revisions of one service, each with the keys that the cloud gives it, over a store that outlasts them. */
class Revisions extends PushedImages {
  readonly #store = new SharedStore();
  readonly #ends = new Set<() => Promise<void>>();
  /** What the newest one was given, with the RSA keys in the variables that it reads. */
  env: Readonly<Record<string, string | undefined>> = {};

  override async start(_: string, env: Readonly<Record<string, string>>): Promise<Instance> {
    // The service reads the mark of its release from there.
    process.env.SVC_RELEASE = env.SVC_RELEASE;
    const keys = withoutNumbers(env);
    const { [PREVIOUS.api]: previousApiKey, [PREVIOUS.rsa]: previousRsaPrivateKey } = keys;
    const service = createServer({
      ...{ agents: [payer], store: this.#store.open, logTo: () => undefined },
      ...{ apiKey: env[NAMES.api]!, rsaPrivateKey: keys[NAMES.rsa]! },
      ...(previousApiKey !== undefined && { previousApiKey }),
      ...(previousRsaPrivateKey !== undefined && { previousRsaPrivateKey }),
    });
    delete process.env.SVC_RELEASE;
    await service.listen({ host: "127.0.0.1", port: 0 });
    const stop = async () => {
      this.#ends.delete(stop);
      await service.close();
    };
    this.#ends.add(stop);
    this.env = keys;
    return { url: service.url ?? "", env, stop };
  }

  override async close(): Promise<void> {
    for (const stop of this.#ends) await stop();
    await super.close();
  }
}

/** A deployed service with jobs that wait for a person, each with a secret parameter. */
async function withJobs(flow: FlowPlatform) {
  let revisions!: Revisions;
  const at = await openSite(flow, {
    images: (pushed) => {
      revisions = new Revisions(pushed, { real: true });
      return revisions;
    },
  });
  const command = (rest: Partial<Command> = {}, env: Record<string, string> = {}): Command => ({
    ...{ name: "up", cwd: at.cwd, env: { ...at.env, ...env }, projectId: flow.projectId, flags: {} },
    ...rest,
  });
  const run = (one: Command) => runCommand(one, { ...flow, ...at.cloud });
  at.write(".deployment/config.yaml", "store: external\n");
  expect(await run(command({}, { [NAMES.api]: FIRST.api, [NAMES.rsa]: FIRST.rsa }))).toBe("done");
  const ask = async (path: string, json?: unknown, key = FIRST.api) => {
    const deployment = await at.open();
    const live = await deployment.session.inspect().finally(() => deployment.close());
    const headers = { "x-api-key": key, "content-type": "application/json" };
    const init = json === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(json) };
    return frontFetch(at.cloud.frontFor)(`${live!.url}${path}`, init);
  };
  const statusOf = async (id: string) =>
    ((await (await ask(`/jobs/${id}`)).json()) as { status: string }).status;
  for (const job_id of JOBS) {
    const encrypted_agent_parameters = await (await ask("/utils/encrypt", `{"TOKEN":"planted-4711"}`)).json();
    await ask("/agents/payer/jobs", { job_context: { job_id }, job_fields: {}, encrypted_agent_parameters });
    await expect.poll(() => statusOf(job_id)).toBe("awaiting");
  }
  return { at, revisions: () => revisions, command, run, ask, statusOf };
}
type Deployed = Awaited<ReturnType<typeof withJobs>>;

/** The present key that clients have, where the platform shows no secret; nobody has an RSA key. */
const shownBy = (flow: FlowPlatform, key: Key): Record<string, string> =>
  flow.name === "do-app-platform" && key === "api" ? { [NAMES[key]]: FIRST[key] } : {};

/** What clients and jobs have, at any moment: the key of before is accepted, and jobs wait as they did. */
async function expectNothingLost({ ask, statusOf, revisions }: Deployed): Promise<void> {
  expect((await ask("/jobs")).status).toBe(200);
  for (const id of JOBS) expect(await statusOf(id)).toBe("awaiting");
  const { env } = revisions();
  expect(`${env[NAMES.rsa]}\n${env[PREVIOUS.rsa]}`).toContain(FIRST.rsa);
}

/** The jobs read their parameters once somebody answers. */
async function expectAllComplete({ ask, statusOf }: Deployed): Promise<void> {
  for (const id of JOBS) {
    await ask(`/jobs/${id}/cases/${id}-case/update`, { answer: { approved: true } });
    await expect.poll(() => statusOf(id)).toBe("completed");
    const { result } = (await (await ask(`/jobs/${id}/result`)).json()) as { result: unknown };
    expect(result).toEqual({ length: "planted-4711".length });
  }
}

/** Ends a rotation that was killed: the same command, or what its refusal names. */
async function repeat(flow: FlowPlatform, { run, command }: Deployed, key: Key): Promise<string> {
  const ended = await run(command({ rotateKey: key }, shownBy(flow, key)));
  // The key was replaced before the kill, and its former one is valid.
  return ended === "2 bad_config" ? run(command()) : ended;
}

async function rotateKilled(flow: FlowPlatform, key: Key, kill: Kill): Promise<void> {
  const deployed = await withJobs(flow);
  const { at, command, ask, revisions } = deployed;
  try {
    const rotate = command({ rotateKey: key }, shownBy(flow, key));
    expect(await runAndKill(flow, at, rotate, kill)).toBe("SIGKILL");
    await expectNothingLost(deployed);

    expect(await repeat(flow, deployed, key)).toBe("done");

    await expectNothingLost(deployed);
    const { env } = revisions();
    expect(env[NAMES[key]]!.trim()).not.toBe(FIRST[key]);
    expect(env[PREVIOUS[key]]).toContain(FIRST[key]);
    expect((await ask("/jobs", undefined, env[NAMES.api])).status).toBe(200);
    await expectAllComplete(deployed);
    expect(at.cloud.recorder.violations).toEqual([]);
  } finally {
    await at.close();
  }
}

/** How many changes a rotation makes that nothing disturbs. */
async function changesOf(flow: FlowPlatform, key: Key): Promise<string[]> {
  const { at, command, run } = await withJobs(flow);
  try {
    const before = at.cloud.recorder.changes.length;
    expect(await run(command({ rotateKey: key }, shownBy(flow, key)))).toBe("done");
    return at.cloud.recorder.calls
      .filter(({ mutating }) => mutating)
      .slice(before)
      .map(({ name }) => name);
  } finally {
    await at.close();
  }
}

describe.each(FLOWS)("on $name, under jobs that are open,", (flow) => {
  it("an RSA key is replaced again by a run that knows no key, and no job is lost", async () => {
    const deployed = await withJobs(flow);
    const { at, run, command, revisions } = deployed;
    try {
      expect(await run(command({ rotateKey: "rsa" }))).toBe("done");
      const second = revisions().env[NAMES.rsa]!.trim();
      expect(await run(command({ rotateKey: "rsa" }))).toBe("done");

      const { env } = revisions();
      expect(rsaKeysIn(env[PREVIOUS.rsa])).toEqual([second, FIRST.rsa]);
      expect([second, FIRST.rsa]).not.toContain(env[NAMES.rsa]!.trim());
      await expectNothingLost(deployed);
      await expectAllComplete(deployed);
    } finally {
      await at.close();
    }
  });

  it.each(["rsa", "api"] as const)(
    "a rotation of the %s key that is killed at any of its changes, and run again, loses no job and no client",
    async (key) => {
      const names = await changesOf(flow, key);
      const kills = names.flatMap((_, index): Kill[] => [
        { call: index + 1, moment: "before" },
        { call: index + 1, moment: "after" },
      ]);

      const failures: string[] = [];
      for (const kill of shareOf(kills, SHARES))
        await rotateKilled(flow, key, kill).catch((error: Error) =>
          failures.push(
            `killed ${kill.moment} change ${kill.call} (${names[kill.call - 1]}): ${error.message}`,
          ),
        );

      expect(names.length).toBeGreaterThan(0);
      expect(failures).toEqual([]);
    },
    limitOf(600_000, SHARES),
  );
});
