import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { access, beginSvc, project, type Running } from "../cli/_svc.ts";
import { CONTROLLER } from "./_controller.ts";
import { jobContext } from "./_jobs.ts";

interface Shown {
  readonly status: string;
  readonly error_message: string | null;
  readonly payload: Record<string, unknown> | null;
  readonly message: string;
}

/** A service in a process of its own, over a folder that outlives it. */
export class ServiceProcess {
  readonly folder: string;
  #running: Running | undefined;
  #access = { url: "", key: "" };

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async start(env?: Record<string, string>): Promise<ServiceProcess> {
    return ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }), env);
  }

  /** Starts the service of a folder with a controller.mjs of its own. */
  static async in(folder: string, env?: Record<string, string>): Promise<ServiceProcess> {
    const service = new ServiceProcess(folder);
    await service.start(env);
    return service;
  }

  async start(env: Record<string, string> = {}): Promise<void> {
    this.#running = beginSvc(["start", "controller.mjs"], {
      cwd: this.folder,
      env: { SERVICE_PORT: "0", ...env },
    });
    await this.#running.prints(/Press Ctrl|http:\/\/127\.0\.0\.1:\d+/);
    this.#access = await access(this.folder);
  }

  /** Ends it without warning. */
  async kill(): Promise<void> {
    this.#running?.process.kill("SIGKILL");
    await this.#running?.finished;
  }

  /** Asks it to end; resolves with the exit code. */
  end(): Promise<number | null> {
    this.signal("SIGTERM");
    return this.ended;
  }

  signal(name: NodeJS.Signals): void {
    this.#running?.process.kill(name);
  }

  /** Processor time that it has used since its start, whatever else the machine does; 0 where the system does not tell. */
  async workSeconds(): Promise<number> {
    const stat = await readFile(`/proc/${this.#running!.process.pid}/stat`, "utf8").catch(() => "");
    const [user = 0, system = 0] = stat.slice(stat.lastIndexOf(")")).split(" ").slice(12, 14).map(Number);
    // Ticks of 10 ms.
    return (user + system) / 100;
  }

  /** Its exit code, once it has ended. */
  get ended(): Promise<number | null> {
    return this.#running!.finished.then(({ code }) => code);
  }

  get pid(): number {
    return this.#running!.process.pid!;
  }

  get output(): string {
    return this.#running?.output() ?? "";
  }

  async send(path: string, body?: unknown): Promise<Response> {
    const headers = { "x-api-key": this.#access.key, "content-type": "application/json" };
    const init = body === undefined ? { headers } : { headers, method: "POST", body: JSON.stringify(body) };
    return fetch(`${this.#access.url}${path}`, init);
  }

  async startJob(agent: string, id: string, fields: Record<string, unknown> = {}): Promise<void> {
    const response = await this.send(`/agents/${agent}/jobs`, {
      job_context: jobContext(id),
      job_fields: fields,
    });
    if (response.status !== 202) throw new Error(`${response.status} ${await response.text()}`);
  }

  async show(id: string): Promise<Shown> {
    return (await (await this.send(`/jobs/${id}`)).json()) as Shown;
  }

  async until(id: string, statuses: readonly string[]): Promise<Shown> {
    for (let left = 6000; left > 0; left--) {
      const job = await this.show(id);
      if (statuses.includes(job.status)) return job;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    throw new Error(
      `Job ${id} did not become ${statuses.join(" or ")}: ${JSON.stringify(await this.show(id))}`,
    );
  }

  /** Marks and calls of a job's log, as its stream tells them. */
  async log(id: string): Promise<{ event: string; data: Record<string, unknown> }[]> {
    const response = await this.send(`/jobs/${id}/stream`);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("event: end") && !/event: mark\ndata: .*waiting_for_agent/.test(text)) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
    }
    await reader.cancel();
    return [...text.matchAll(/event: (\w+)\n(?:id: \d+\n)?data: (.*)\n/g)].map(([, event, data]) => ({
      event: event!,
      data: JSON.parse(data!) as Record<string, unknown>,
    }));
  }

  /** What the handlers really did, over all processes. */
  async did(): Promise<string[]> {
    const text = await readFile(join(this.folder, "did.log"), "utf8").catch(() => "");
    return text.split("\n").filter(Boolean);
  }
}
