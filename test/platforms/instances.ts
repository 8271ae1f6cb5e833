import type { RunningServer } from "./http-server.ts";
import { serveHttp } from "./http-server.ts";

/** How an image behaves once it runs. */
export type Behaviour = "healthy" | "unhealthy" | "crashes";

/** A running copy of an image. */
export interface Instance {
  readonly url: string;
  readonly env: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** Starts images; rejects if the container exits immediately. */
export interface ImageRunner {
  has(image: string): Promise<boolean> | boolean;
  /** Digest of what was pushed under a name, where pushes are seen. */
  digestOf?(ref: string): string | undefined;
  start(image: string, env: Readonly<Record<string, string>>): Promise<Instance>;
  close(): Promise<void>;
}

/** Images by reference, each run as a small server that answers as the service's health check does. */
export class StandInImages implements ImageRunner {
  /** Seconds for which every process says that it runs. */
  age = 1;
  readonly #images = new Map<string, Behaviour>();
  readonly #running = new Set<RunningServer>();

  add(image: string, behaviour: Behaviour = "healthy"): string {
    this.#images.set(image, behaviour);
    return image;
  }

  has(image: string): boolean {
    return this.#images.has(image);
  }

  async start(image: string, env: Readonly<Record<string, string>>): Promise<Instance> {
    const behaviour = this.#images.get(image);
    if (behaviour === undefined || behaviour === "crashes")
      throw new Error("the container ended with code 1");
    // In the files of this instance.
    let jobs: readonly { readonly job_id: string; readonly status: string }[] = [];
    const server = await serveHttp(async ({ method, path, query, headers }) => {
      if (path === "/jobs") {
        const key = env.SERVICE_API_KEY;
        if (key !== undefined && headers["x-api-key"] !== key) return { status: 401, body: {} };
        if (method === "POST") jobs = [{ job_id: "asking-1", status: "awaiting" }];
        if (method === "DELETE") jobs = [];
        return { status: 200, body: jobs.filter(({ status }) => status === query.get("status")) };
      }
      if (path !== "/.well-known/health") return { status: 200, body: { image, env } };
      const healthy = behaviour === "healthy";
      const probe = env.SERVICE_DATABASE_URL === undefined ? {} : { probe: "done" };
      const body = {
        status: behaviour,
        timestamp: new Date().toISOString(),
        version: image,
        uptime: this.age,
        release: env.SVC_RELEASE,
        ...probe,
      };
      return { status: healthy ? 200 : 503, body };
    });
    this.#running.add(server);
    return {
      url: server.url,
      env,
      stop: async () => {
        this.#running.delete(server);
        await server.close();
      },
    };
  }

  async close(): Promise<void> {
    await Promise.all([...this.#running].map((server) => server.close()));
  }
}
