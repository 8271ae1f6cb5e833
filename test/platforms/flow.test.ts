// @alone
// @long
import { execFile } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { FLOWS } from "./flow/clouds.ts";
import type { Project } from "./flow/project.ts";
import { commit, newProject } from "./flow/project.ts";
import { LOGINS, openUserSite } from "./flow/user-site.ts";

const engine = requirement("docker", "registries");
/** Where the engine is demanded it runs the images of every cloud, elsewhere those of one; the others are processes. */
const demanded = (process.env.SVC_REQUIRE ?? "").includes("docker");

const run = promisify(execFile);

let project: Project;
beforeAll(async () => {
  project = await newProject();
}, 180_000);
afterAll(() => project[Symbol.asyncDispose]());

interface Action {
  readonly action_type: string;
  readonly resource_type: string;
}

describe.concurrent.each(shareOf(FLOWS, 4))("$name, as the user of a new project sees it", (flow) => {
  it("from the first plan to the last removal", async ({ expect }) => {
    const containers = engine.met && (demanded || flow === FLOWS[0]);
    await using site = await openUserSite(flow, project, { containers });
    const { user, cloud, images, visit } = site;
    let key = "";
    cloud.plant();
    // What App Platform keeps cannot be read back: the key with which the service is asked must be given.
    const given = (): Record<string, string> =>
      flow.name === "do-app-platform" && key !== "" ? { SERVICE_API_KEY: key } : {};
    const deploy = (command: string, ...args: string[]) =>
      user.svc(["deploy", command, "--platform", flow.name, "--name", site.name, ...args], given());
    const asked = async (command: string, ...args: string[]) => {
      const { code, stdout } = await deploy(command, "--json", ...args);
      return { code, ...JSON.parse(stdout) };
    };
    const changes = (actions: readonly Action[]) =>
      actions
        .filter(({ action_type }) => action_type !== "noop")
        .map(({ resource_type }) => resource_type)
        .sort();
    let url = "";
    const job = () => messageOfJob((path, init) => visit(`${url}${path}`, init), key);

    const first = await asked("plan");
    expect(first).toMatchObject({ code: 0, changes: true });
    expect(new Set(first.actions.map(({ action_type }: Action) => action_type))).toEqual(new Set(["create"]));
    expect(first.total_cost_estimate).toMatch(/\$\d+\.\d\d a month.*\(prices of .*20\d\d.*: https:\/\//);
    expect(cloud.recorder.changes).toEqual([]);

    const made = await deploy("up", "--yes", "--generate-api-key", "--show-api-key");
    expect(made.code, made.stderr).toBe(0);
    expect(made.stdout).toContain("is up and healthy");
    url = /URL +(https:\S+)/.exec(made.stdout)?.[1] ?? "";
    key = /API key +(\S{40,})$/m.exec(made.stdout)?.[1] ?? "";
    // Shown this once, as it was asked for.
    user.printed = "";
    const words = ["job", "start", "word-counter", "--wait", "--field", 'texts:=["Hello"]'];
    const ran = await user.svc(words, { SERVICE_URL: url, SERVICE_API_KEY: key });
    expect(ran).toMatchObject({ code: 0, stdout: expect.stringContaining("completed: Words: 1") });

    const status = await asked("status");
    expect(status).toMatchObject({
      code: 0,
      service_url: url,
      health: { status: "healthy" },
      resources: {
        cpu: expect.stringMatching(/^[\d.]+ vCPU$/),
        memory: expect.stringMatching(/^[\d.]+ ([MG]iB|GB)$/),
        instances: expect.any(String),
      },
      secrets: ["SERVICE_API_KEY"],
    });

    const rollouts = cloud.rollouts();
    const idle = await deploy("plan", "--detailed-exitcode");
    expect(idle).toMatchObject({ code: 0, stdout: expect.stringContaining("Nothing to do") });
    expect(idle.stdout).not.toMatch(/CREATE|UPDATE|DELETE/);
    expect(await asked("up")).toMatchObject({ code: 0, changed: false });
    expect(cloud.rollouts()).toBe(rollouts);

    user.write(".deployment/config.yaml", "environment:\n  GREETING: good day\nsecrets: []\n");
    const variable = await asked("up");
    expect(variable).toMatchObject({ code: 0, success: true, changed: true });
    expect(changes(variable.plan.actions)).toEqual(["environment_variable", "service"]);
    expect(cloud.rollouts()).toBe(rollouts + 1);

    user.write("src/agent.ts", saying(readFileSync(join(user.cwd, "src/agent.ts"), "utf8"), "second"));
    const second = await commit(user.cwd, "says what it is configured to say");
    const renewed = await asked("up");
    expect(renewed).toMatchObject({ code: 0, success: true });
    expect(renewed.plan.target_image).toContain(`:${second}`);
    expect(await job()).toBe("second, good day");

    const controller = readFileSync(join(user.cwd, "src/controller.ts"), "utf8");
    user.write("src/controller.ts", `throw new Error("crash at start");\n${controller}`);
    await commit(user.cwd, "a controller that throws");
    const watch = watching(() => visit(`${url}/.well-known/health`));
    // Code that is not loaded here is not checked against open jobs either.
    const unchecked = ["--no-check", "--held-jobs", "unchecked"];
    const left = await asked("up", "--no-rollback", ...unchecked);
    expect(left).toMatchObject({ code: flow.rollsBackItself ? 3 : 1, success: false });
    if (!flow.rollsBackItself)
      expect(left.error_details.outcome).toMatch(/is still serving; the failed .* is kept/);
    const broken = await deploy("up", "--yes", ...unchecked);
    expect(broken.code).toBe(3);
    expect(broken.stderr).toContain(
      flow.rollsBackItself ? "The previous version is serving" : "Rolled back: revision",
    );
    expect(await watch()).toEqual(new Set([200]));
    expect(await job()).toBe("second, good day");

    user.write("src/controller.ts", controller);
    user.write("src/agent.ts", saying(readFileSync(join(user.cwd, "src/agent.ts"), "utf8"), "third"));
    await commit(user.cwd, "mended");
    const third = await asked("up");
    expect(third).toMatchObject({ code: 0, success: true });
    expect(await job()).toBe("third, good day");
    expect(await asked("rollback", "--yes")).toMatchObject({
      code: 0,
      success: true,
      health: { status: "healthy" },
    });
    expect(await job()).toBe("second, good day");

    const removed = await deploy("down", "--yes");
    expect(removed).toMatchObject({ code: 0, stdout: expect.stringContaining("was removed") });
    const gone = await deploy("down", "--yes");
    expect(gone).toMatchObject({ code: 0, stdout: expect.stringContaining("nothing to remove") });
    expect(cloud.foreign()).toBe(2);
    expect((await visit(url)).status).toBe(404);
    expect(await images.areKept()).toBe(true);

    expect(cloud.recorder.violations).toEqual([]);
    const secrets = [key, ...Object.values(LOGINS).map(([, password]) => password)];
    const started = site.started.map((file) => readFileSync(file, "utf8")).join("\n");
    expect(started).toMatch(/^docker .*\bbuild\b/m);
    expect(started).toMatch(/^git /m);
    const written = `${user.printed}\n${started}\n${allText(user.cwd)}`;
    expect(secrets.filter((secret) => written.includes(secret))).toEqual([]);
  }, 900_000);
});

engine.it("leaves neither containers nor images in the engine", async () => {
  await project[Symbol.asyncDispose]();
  const { stdout: running } = await run("docker", ["ps", "--all", "--format", "{{.Labels}}"]);
  const { stdout: images } = await run("docker", ["images", "--format", "{{.Repository}}"]);
  expect(`${running}${images}`).not.toContain(project.name);
});

/** Runs a job of the service; what it ends with. */
async function messageOfJob(
  ask: (path: string, init?: RequestInit) => Promise<Response>,
  key: string,
): Promise<string> {
  const headers = { "x-api-key": key, "content-type": "application/json" };
  const now = new Date().toISOString();
  const job_id = `job-${Math.random().toString(36).slice(2)}`;
  const who = { workspace_id: "w", started_by: "test", mission_id: "m", mission_name: "m" };
  const job_context = { ...who, job_id, started_at: now };
  const body = JSON.stringify({ job_context, job_fields: { texts: ["Hello"] } });
  const started = await ask("/agents/word-counter/jobs", { method: "POST", headers, body });
  if (started.status !== 202) return `not started: ${started.status} ${await started.text()}`;
  for (;;) {
    const job = await (await ask(`/jobs/${job_id}`, { headers })).json();
    const { status, message } = job as { status: string; message: string };
    if (status === "completed" || status === "failed") return message;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The agent of the template, with another message. */
function saying(source: string, words: string): string {
  return source.replace(/message: `[^`]*`/, `message: \`${words}, \${process.env.GREETING}\``);
}

/** Asks again and again until it is called; the statuses that were answered. */
function watching(ask: () => Promise<Response>): () => Promise<Set<number>> {
  const seen = new Set<number>();
  let over = false;
  const ended = (async () => {
    while (!over) {
      seen.add(
        await ask().then(
          ({ status }) => status,
          () => 0,
        ),
      );
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  })();
  return async () => {
    over = true;
    await ended;
    return seen;
  };
}

/** All text that deployments wrote into a project. */
function allText(folder: string): string {
  return readdirSync(join(folder, ".deployment"), { recursive: true, encoding: "utf8" })
    .map((file) => join(folder, ".deployment", file))
    .filter((file) => statSync(file).isFile())
    .map((file) => readFileSync(file, "utf8"))
    .join("\n");
}
