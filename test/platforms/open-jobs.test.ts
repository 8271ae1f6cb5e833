// @alone
// @long
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FLOWS } from "./flow/clouds.ts";
import { commit, newProject, type Project } from "./flow/project.ts";
import { openUserSite } from "./flow/user-site.ts";

let project: Project;
beforeAll(async () => {
  project = await newProject();
}, 180_000);
afterAll(() => project[Symbol.asyncDispose]());

/** Agents by the change of their code: their handlers before and after it, and the recorded call that does not fit. */
const CHANGES: Record<string, { before?: string; after: string; held?: string; skipped?: string }> = {
  "nothing-but-the-version": { after: "read check ask book" },
  "step-renamed": { after: "read verify ask book", held: 'step "check"' },
  "step-removed": { after: "read ask book", skipped: 'step "check"' },
  "step-added-before": { after: "read audit check ask book", held: 'step "check"' },
  "step-added-at-the-question": { after: "read check audit ask book" },
  "step-added-after": { after: "read check ask audit book" },
  "steps-reordered": { after: "check read ask book" },
  "step-renamed-and-moved": { after: "check load ask book", held: 'step "read"' },
  "question-reworded": { after: "read check reworded book" },
  "handler-ends-early": { after: "read", held: 'step "check"' },
  "event-renamed": { before: "read paid ask book", after: "read booked ask book" },
  "child-removed": { before: "read child ask book", after: "read ask book", skipped: 'start "helper"' },
  "sleep-changed": { before: "read pause ask book", after: "read longer ask book" },
  "agent-removed": { after: "", held: "is not registered" },
};

const CALLS: Record<string, string> = {
  ask: 'await item.ask("approve", { question: "Pay it?", fields: [] });',
  reworded: 'await item.ask("approve", { question: "Really pay it?", fields: [] });',
  paid: 'await job.waitFor("paid", { deadline: "7d" });',
  booked: 'await job.waitFor("booked", { deadline: "7d" });',
  child: "await (await job.start(helper, {})).result();",
  pause: 'await job.sleep("1d");',
  longer: 'await job.sleep("2d");',
};

/** A controller with an agent for each change, each in its former state or in the one after its change. */
function controller(isAfter: (slug: string) => boolean, version: string): string {
  const agents = Object.entries(CHANGES).flatMap(([slug, { before = "read check ask book", after }]) => {
    const calls = isAfter(slug) ? after : before;
    if (calls === "") return [];
    const lines = calls
      .split(" ")
      .map((call) => CALLS[call] ?? `await item.step("${call}", () => "${call}");`);
    return `defineAgent({ name: "${slug}", version: "${version}", methods: { job_start: { async run({ job }) {
      const item = await job.openCase({ id: job.id, name: "a" });
      ${lines.join("\n      ")}
      return "done";
    } } } })`;
  });
  return `import { createServer, defineAgent } from "agent-control-service";
const helper = defineAgent({ name: "Helper", version: "1.0.0", methods: { job_start: { run: () => 1 } } });
console.log("code that prints where it is loaded");
export default createServer({ agents: [helper, ${agents.join(",\n")}] });
`;
}

const SLUGS = Object.keys(CHANGES);
const HELD = SLUGS.filter((slug) => CHANGES[slug]?.held !== undefined);

describe("svc deploy up over open jobs", () => {
  it("stops with exit code 8 and names the jobs that the new code does not fit, wherever the key is, and releases code that fits", async () => {
    const flow = FLOWS.find(({ name }) => name === "cloud-run")!;
    await using site = await openUserSite(flow, project, { containers: false });
    const { user, cloud, visit } = site;
    const up = async (args: readonly string[] = [], env: Record<string, string> = {}) => {
      const target = ["--platform", flow.name, "--name", site.name, "--yes"];
      return user.svc(["deploy", "up", ...target, ...args], env);
    };
    const write = async (text: string, message: string) => {
      user.write("src/controller.ts", text);
      await commit(user.cwd, message);
    };

    // A store that outlasts releases: jobs on a disk that does not are lost, whatever the code.
    user.write("deploy.yaml", "store: external\n");
    await write(
      controller(() => false, "1.0.0"),
      "as it was",
    );
    const made = await up(["--generate-api-key", "--show-api-key"]);
    expect(made.code, made.stderr).toBe(0);
    const url = /URL +(https:\S+)/.exec(made.stdout)?.[1] ?? "";
    const key = /API key +(\S{40,})$/m.exec(made.stdout)?.[1] ?? "";
    const service = { SERVICE_URL: url, SERVICE_API_KEY: key };
    // Shown this once, as it was asked for.
    user.printed = "";
    for (const slug of SLUGS) {
      const started = await user.svc(["job", "start", slug, "--id", `job-${slug}`], service);
      expect(started.code, started.stderr).toBe(0);
    }
    const waiting = async () => {
      const answer = await visit(`${url}/utils/open-jobs`, { headers: { "x-api-key": key } });
      const lines = (await answer.text()).trim().split("\n");
      const open = lines.map((line) => JSON.parse(line) as { log: { type: string; call?: string }[] });
      return open.filter(({ log }) => /ask|event|sleep/.test(log.at(-1)?.call ?? "")).length;
    };
    await expect.poll(waiting, { timeout: 60_000 }).toBe(SLUGS.length);

    const held = HELD.map((slug) => `job-${slug}`).sort();
    const named = (text: string) =>
      [...new Set(text.match(/\bjob-[a-z-]+/g) ?? [])].filter((id) => SLUGS.includes(id.slice(4))).sort();
    await write(
      controller(() => true, "2.0.0"),
      "all changes",
    );
    const rollouts = cloud.rollouts();
    const keys: Record<string, string>[] = [
      {},
      { SERVICE_API_KEY: key },
      { SERVICE_API_KEY: "an-earlier-key-0123456789-0123456789" },
    ];
    for (const env of keys) {
      const stopped = await up([], env);
      expect(stopped, stopped.stderr).toMatchObject({ code: 8 });
      expect(named(stopped.stderr)).toEqual(held);
      for (const slug of HELD) expect(stopped.stderr).toContain(CHANGES[slug]!.held);
    }
    const unchecked = await up(["--held-jobs", "unchecked"]);
    expect(unchecked.code, unchecked.stderr).toBe(8);
    // The same by hand.
    for (const [args, env] of [
      [["--url", url, "--key", key], {}],
      [["--url", url], { SERVICE_API_KEY: key }],
      [[], service],
    ] as const) {
      const checked = await user.svc(["check", ...args], env);
      expect(checked, checked.stderr).toMatchObject({ code: 1 });
      const [problems = "", rest = ""] = checked.stdout.split("of those that fit");
      expect(named(problems)).toEqual(held);
      for (const slug of SLUGS) expect(rest).toContain(CHANGES[slug]!.skipped ?? "");
    }

    // What could not be checked is no better.
    await write('throw new Error("it needs the vault");', "a controller that cannot be loaded here");
    const unknown = await up(["--no-check"]);
    expect(unknown).toMatchObject({ code: 8, stderr: expect.stringContaining("were not checked") });
    expect(unknown.stderr).toContain("--held-jobs unchecked");
    expect(cloud.rollouts()).toBe(rollouts);

    await write(
      controller((slug) => !HELD.includes(slug), "2.0.0"),
      "changes that fit",
    );
    const released = await up();
    expect(released, released.stderr).toMatchObject({ code: 0 });
    expect(released.stdout).toContain("is up and healthy");
    expect(cloud.rollouts()).toBe(rollouts + 1);
    expect(user.printed).not.toContain(key);
  }, 600_000);
});
