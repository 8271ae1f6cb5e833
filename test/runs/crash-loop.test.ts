// @alone
// @long
// @losses
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { shareOf } from "../_share.ts";
import { access, beginSvc, PROCESS_TIME, project, type Running } from "../cli/_svc.ts";
import { jobContext } from "./_jobs.ts";

const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";

const agent = (name, run) => defineAgent({ name, version: "1.0.0", methods: { job_start: { run } } });
const held = [];

export default createServer({
  port: 0,
  agents: [
    agent("Exit", ({ job }) => job.step("boom", () => process.exit(0))),
    agent("Hang", ({ job }) => job.step("boom", () => { for (;;); })),
    agent("Memory", ({ job }) => job.step("boom", async () => { for (;; await null) held.push(Array(1e5).fill(held.length)); })),
    agent("Counter", async ({ job }) => {
      for (let n = 1; n <= 5; n++) await job.step("step " + n, () => new Promise((done) => setTimeout(done, 20)));
      return "done";
    }),
    agent("Asker", async ({ job }) => {
      const item = await job.openCase({ id: job.id + "-case", name: "Question" });
      return item.ask({ question: "Which?", fields: [{ name: "text", required: true }] });
    }),
  ],
});
`;

interface Shown {
  readonly status: string;
  readonly error_message: string | null;
}

/** A service with a supervisor that restarts it when it has ended, and kills it when it does not respond. */
class Kept {
  starts = 0;
  #running: Running | undefined;
  #access = { url: "", key: "" };
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async start(): Promise<void> {
    this.starts++;
    const running = beginSvc(["start", "controller.mjs"], {
      cwd: this.#folder,
      env: { NODE_OPTIONS: "--max-old-space-size=128" },
    });
    this.#running = running;
    const isUp = await running.prints(/http:\/\/127\.0\.0\.1:\d+/).then(
      () => true,
      () => false,
    );
    if (isUp) this.#access = await access(this.#folder);
  }

  /** Whether it has ended, or hangs and is killed, within a while. */
  async ends(): Promise<boolean> {
    const { process, finished } = this.#running!;
    for (let left = 20; left > 0; left--) {
      if (process.exitCode !== null || process.signalCode !== null) break;
      await delay(100);
      const answered = await this.get("/.well-known/health", 3000).then(
        ({ status }) => status === 200,
        () => false,
      );
      if (!answered) process.kill("SIGKILL");
      if (!answered) break;
      if (left === 1) return false;
    }
    await finished;
    return true;
  }

  get(path: string, milliseconds = 10_000): Promise<Response> {
    return fetch(`${this.#access.url}${path}`, {
      headers: { "x-api-key": this.#access.key },
      signal: AbortSignal.timeout(milliseconds),
    });
  }

  async show(id: string): Promise<Shown> {
    return (await (await this.get(`/jobs/${id}`)).json()) as Shown;
  }

  async startJob(agent: string, id: string): Promise<void> {
    await fetch(`${this.#access.url}/agents/${agent}/jobs`, {
      method: "POST",
      headers: { "x-api-key": this.#access.key, "content-type": "application/json" },
      body: JSON.stringify({ job_context: jobContext(id), job_fields: {} }),
    }).catch(() => {});
  }
}

for (const kind of shareOf(["exit", "hang", "memory"], 3)) {
  test(
    `a job whose step ends the process (${kind}) is held at the fourth start, and all other jobs continue`,
    async () => {
      const service = new Kept(await project({ "controller.mjs": CONTROLLER }));
      await service.start();
      await service.startJob("asker", "asker");
      const counters = ["counter-1", "counter-2", "counter-3"];
      for (const id of counters) await service.startJob("counter", id);
      void service.startJob(kind, "poison");

      while (await service.ends()) await service.start();
      const poison = await service.show("poison");

      expect(service.starts).toBe(4);
      expect(poison.status).toBe("awaiting");
      expect(poison.error_message).toMatch(/^The process ended 3 times in a row .* it was at step "boom"/);
      for (const id of counters)
        await expect.poll(() => service.show(id)).toMatchObject({ status: "completed" });
      expect(await service.show("asker")).toMatchObject({ status: "awaiting", error_message: null });
    },
    PROCESS_TIME,
  );
}
