import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A revision of a service in the world that the tests deploy to. */
export interface WorldRevision {
  readonly name: string;
  readonly image: string;
  readonly env: Record<string, string>;
  readonly secrets: Record<string, string>;
  readonly madeAt: number;
}

export interface WorldService {
  readonly id: string;
  readonly revisions: WorldRevision[];
  serving: string | undefined;
  instances: number;
  /** Polls until the operation under way is done; 0 when none is. */
  pending: number;
}

/** The whole outside: kept in a file, so that it outlives a killed deployment. */
export interface World {
  readonly services: Record<string, WorldService>;
  readonly secrets: Record<
    string,
    Record<string, { value: string; hash: string; version: number; all: string[] }>
  >;
  readonly prepared: string[];
  readonly images: Record<string, string>;
  /** Every call that changed something, in order. */
  readonly calls: string[];
  /**
   * What goes wrong, by call: `fail`, `fail-after` (it happens, then the answer is lost), `hang`, `slow`. With `previous`
   * for `health`, the process of the release before still responds.
   */
  readonly faults: Record<string, string>;
  readonly locks: Record<string, string>;
  /** Jobs that have not ended, by service. */
  readonly jobs?: Record<string, { job_id: string; status: string; stop_reason?: string }[]>;
}

export interface WorldFile {
  read(): World;
  change<T>(fn: (world: World) => T): T;
}

export function openWorld(path: string): WorldFile {
  const read = (): World => JSON.parse(readFileSync(path, "utf8")) as World;
  const write = (world: World) => {
    writeFileSync(`${path}.tmp`, JSON.stringify(world));
    renameSync(`${path}.tmp`, path);
  };
  if (!existsSync(path))
    write({ services: {}, secrets: {}, prepared: [], images: {}, calls: [], faults: {}, locks: {} });
  return {
    read,
    change(fn) {
      const world = read();
      const result = fn(world);
      write(world);
      return result;
    },
  };
}

/** Answers for every service of a world: `/<service>/…` for what serves users, `/<service>@<revision>/…` for one revision. */
export async function serveWorld(
  world: WorldFile,
): Promise<{ url: string; server: Server; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    const [, target = "", ...rest] = (request.url ?? "/").split("/");
    const [name = "", wanted] = target.split("@");
    const service = world.read().services[name];
    const revision = service?.revisions.find((one) => one.name === (wanted ?? service.serving));
    if (!service || !revision || (service.instances === 0 && wanted === undefined)) {
      response.writeHead(404).end("no such service");
      return;
    }
    const isOpenJobs = rest.join("/") === "utils/open-jobs";
    if (isOpenJobs || rest.join("/").startsWith("jobs")) {
      const version = Number(revision.secrets.SERVICE_API_KEY?.split(":")[1] ?? 0);
      const key = world.read().secrets[name]?.SERVICE_API_KEY?.all[version - 1];
      if (key !== undefined && request.headers["x-api-key"] !== key) {
        response.writeHead(401).end("{}");
        return;
      }
      if (isOpenJobs) {
        const lines = (world.read().jobs?.[name] ?? []).map((job) => `${JSON.stringify(job)}\n`);
        response.writeHead(world.read().faults["open-jobs"] ? 500 : 200).end(lines.join(""));
        return;
      }
      const status = new URL(request.url ?? "/", "http://world").searchParams.get("status");
      const jobs = (world.read().jobs?.[name] ?? []).filter((job) => job.status === status);
      response.writeHead(200, { "x-total-count": String(jobs.length) }).end(JSON.stringify(jobs));
      return;
    }
    if (rest.join("/") !== ".well-known/health") {
      response.writeHead(200).end(revision.name);
      return;
    }
    const { health } = world.read().faults;
    const before = health === "previous" && wanted === undefined ? service.revisions.at(-2) : undefined;
    const responding = before ?? revision;
    const sick = responding.env.SICK ?? "";
    if (sick === "500") response.writeHead(500).end("boom");
    else if (sick === "word") response.writeHead(200).end("hello");
    else {
      const status = sick === "status" ? "unhealthy" : "healthy";
      const uptime = sick === "old" ? 99999 : (Date.now() - responding.madeAt) / 1000;
      const probe = responding.secrets.SERVICE_DATABASE_URL && !sick ? { probe: "done" } : {};
      const marks: Record<string, string | undefined> = { old: undefined, other: "of-another-release" };
      const release = sick in marks ? marks[sick] : responding.env.SVC_RELEASE;
      const last = responding.env.LAST_BACKUP;
      const body = {
        status,
        timestamp: new Date().toISOString(),
        version: "1.0.0",
        uptime,
        release,
        ...probe,
        ...(last !== undefined && { backup: { last_at: last === "never" ? null : last, lag: null } }),
      };
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    server,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
