import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";

import * as v from "valibot";
import type { ResourceAction } from "../../src/core/models/deployment.ts";
import { MARKS } from "../../src/deploy/config.ts";
import { DeployError } from "../../src/deploy/errors.ts";
import type { Platform, PlatformSession, Release, ReleaseSpec } from "../../src/deploy/platform.ts";
import { specChanges } from "../../src/deploy/spec-changes.ts";
import type { World, WorldFile, WorldRevision, WorldService } from "./_world.ts";

const flags = v.object({
  minInstances: v.optional(
    v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1000), v.description("Instances kept running")),
    0,
  ),
  maxInstances: v.optional(
    v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1000), v.description("Instances at most")),
    1,
  ),
  canary: v.optional(v.pipe(v.boolean(), v.description("Hold a release back until it is healthy")), false),
  at: v.optional(v.pipe(v.string(), v.description("Places, with commas between them"))),
});
export type MemoryFlags = v.InferOutput<typeof flags>;

export interface MemoryOptions {
  readonly world: WorldFile;
  /** Where the world is served. */
  readonly base: string;
  readonly ephemeralDisk?: boolean;
  readonly proxies?: number;
  readonly predictable?: boolean;
  /** Whether it can take a lock for all machines. */
  readonly locks?: boolean;
  /** Whether it keeps hashes beside its secrets. */
  readonly annotations?: boolean;
  /** Whether the deploying user may read its vault. */
  readonly readable?: boolean;
  /** Whether it says which secrets a release refers to. */
  readonly refers?: boolean;
  readonly remoteBuild?: boolean;
  /** Whether secrets are a part of the service, and end with it. */
  readonly endsSecrets?: boolean;
  /** Whether it creates buckets, of Cloud Storage. */
  readonly buckets?: boolean;
  /** A role that it makes for a service and removes with it, and a volume that stays, which `--max-instances 2` uses. */
  readonly beside?: boolean;
  /** Whether it runs commands of releases, with the shell of this machine. */
  readonly commands?: boolean;
}

function beside(
  resource_type: ResourceAction["resource_type"],
  resource_name: string,
  action_type: ResourceAction["action_type"],
  description: string,
): ResourceAction {
  return { resource_type, resource_name, action_type, description, cost_estimate: null, metadata: null };
}

/** A cloud in one file, which counts every call that changes it. */
export function memoryPlatform(options: MemoryOptions): Platform<MemoryFlags> {
  return {
    name: "memory",
    defaultRegion: "here-1",
    flags,
    ephemeralDisk: options.ephemeralDisk ?? false,
    withDatabase: { maxInstances: 3 },
    placeOf: ({ at }) => at,
    split: (given) => (given.at?.split(",") ?? [undefined]).map((at) => ({ ...given, at })),
    ...(options.proxies !== undefined && { proxies: options.proxies }),
    connect(target, tools): PlatformSession {
      const { world, base } = options;
      const { at } = target.flags;
      const name = at === undefined ? target.serviceName : `${target.serviceName}.${at}`;
      const url = `${base}/${name}`;
      const service = () => world.read().services[name];
      const described = (one: WorldService, revision: WorldRevision | undefined): Release => ({
        ...toRelease(one, revision, url),
        version: versionOf(revision, world.read().secrets[name] ?? {}),
        ...(options.refers === false ? {} : { secrets: revision?.secrets ?? {} }),
      });

      async function call<T>(step: string, change: () => T): Promise<T> {
        return tools.journal({ step }, async (note) => {
          const { faults } = world.read();
          const fault = faults[step] ?? faults[`${step} ${name}`];
          if (fault === "hang") await tools.sleep(600_000);
          if (fault === "fail")
            throw new DeployError("failed", `${step} was refused`, { detail: "MEMORY_403: not allowed" });
          world.change((now) => now.calls.push(step));
          const result = change();
          await note({ made: step });
          if (fault === "fail-after") throw new Error("socket hang up");
          return result;
        });
      }

      async function settled(): Promise<void> {
        while ((service()?.pending ?? 0) > 0) {
          tools.report(`${service()?.pending} polls left`);
          world.change((now) => {
            const one = now.services[name];
            if (one && now.faults["service.wait"] !== "slow") one.pending -= 1;
          });
          await tools.sleep(5);
        }
      }

      const session: PlatformSession = {
        async preflight() {
          const broken = world.read().faults.preflight;
          if (broken)
            return [{ level: "error", subject: "credentials", message: broken, fix: "memory auth login" }];
          return [{ level: "ok", subject: "credentials", message: "signed in as tester" }];
        },
        async inspect() {
          const one = service();
          return one === undefined ? undefined : described(one, serving(one));
        },
        async environments() {
          return Object.entries(world.read().services).map(([, one]) => ({
            environment: String(serving(one)?.env.SERVICE_ENVIRONMENT),
            since: new Date(serving(one)?.madeAt ?? 0).toISOString(),
          }));
        },
        async listSecrets() {
          return Object.entries(world.read().secrets[name] ?? {}).map(([key, { hash, version }]) => ({
            name: key,
            ref: `${key}:${version}`,
            ...(options.annotations === false ? {} : { hash }),
          }));
        },
        async plan(spec, live) {
          const changes = specChanges(spec, live);
          const action_type = live === undefined ? "create" : changes.length > 0 ? "update" : "noop";
          return [
            {
              resource_type: "service",
              action_type,
              resource_name: name,
              description: "Memory service",
              cost_estimate: null,
              metadata: { changes },
            },
          ];
        },
        async estimate() {
          const cost = { text: "USD 0.00 a month", date: "2026", source: "https://memory.example/prices" };
          return { cost, duration: "a few seconds" };
        },
        ...(options.predictable ? { predictUrl: async () => url } : {}),
        async prepare() {
          if (world.read().prepared.includes(name)) return;
          await call("role.create", () => world.change((now) => now.prepared.push(name)));
        },
        ...(options.buckets
          ? {
              storageUrl: async () => `gs://${name}-bucket/store`,
              hasAccessTo: (bucket: string) => bucket.startsWith("gs:"),
              async ensureStorage(bucket: string) {
                if (world.read().prepared.includes(bucket)) return;
                await call("bucket.create", () => world.change((now) => now.prepared.push(bucket)));
              },
            }
          : {}),
        imageRef: (tag) => `memory.example/${name}:${tag}`,
        registryLogin: async () => undefined,
        ...(options.remoteBuild === false
          ? {}
          : {
              async build(context, ref) {
                const sum = createHash("sha256");
                for await (const chunk of context.pack()) sum.update(chunk);
                const digest = `sha256:${sum.digest("hex")}`;
                context.onLine("Step 1/1 : FROM scratch");
                if (world.read().images[ref] === digest) return digest;
                return call("image.build", () => {
                  world.change((now) => {
                    now.images[ref] = digest;
                  });
                  return digest;
                });
              },
            }),
        async putSecrets(values) {
          const refs: Record<string, { name: string; ref: string }> = {};
          for (const [key, { value, hash }] of Object.entries(values)) {
            const version = await call(`secret.put ${key}`, () =>
              world.change((now) => {
                now.secrets[name] ??= {};
                const mine = now.secrets[name];
                const next = (mine[key]?.version ?? 0) + 1;
                mine[key] = { value, hash, version: next, all: [...(mine[key]?.all ?? []), value] };
                return next;
              }),
            );
            refs[key] = { name: key, ref: `${key}:${version}` };
          }
          return refs;
        },
        async release(spec) {
          const live = service();
          const held = target.flags.canary && live !== undefined;
          const newest = live?.revisions.at(-1);
          if (newest !== undefined && same(newest, spec)) {
            await settled();
            if (live?.serving === newest.name || held) return described(service() ?? live!, newest);
          }
          if (newest === undefined || !same(newest, spec)) {
            await call(live === undefined ? "service.create" : "service.update", () =>
              world.change((now) => addRevision(now.services, name, spec, held)),
            );
            if (world.read().faults.rollout === "crash") {
              await settled();
              throw new DeployError("failed", `Revision of "${name}" crashed`, {
                detail: "container exited with code 1",
                log: ["Error: Cannot find module './controller.js'"],
              });
            }
          } else await call("traffic.latest", () => serve(world, name, newest.name));
          await settled();
          const now = service()!;
          return described(now, now.revisions.at(-1));
        },
        ...(options.commands
          ? {
              runOnce: (spec: ReleaseSpec, command: string, onLine: (line: string) => void) =>
                call("command.run", () => {
                  const env = { PATH: process.env.PATH, IMAGE: spec.image, ...spec.env };
                  const { status, stdout, stderr } = spawnSync("/bin/sh", ["-c", command], {
                    ...{ cwd: target.cwd, env, encoding: "utf8" },
                  });
                  for (const line of `${stdout}${stderr}`.split("\n")) onLine(line);
                  return status ?? 1;
                }),
            }
          : {}),
        async promote(release) {
          const revision = release.revision ?? "";
          if (service()?.serving !== revision)
            await call("traffic.promote", () => serve(world, name, revision));
          return described(service()!, serving(service()!));
        },
        async rollback(to) {
          const revision = to.revision ?? "";
          if (service()?.serving !== revision)
            await call("traffic.rollback", () => serve(world, name, revision));
          return described(service()!, serving(service()!));
        },
        async scaleToZero() {
          if ((service()?.instances ?? 0) === 0) return;
          await call("service.scale", () =>
            world.change((now) => {
              const one = now.services[name];
              if (one) one.instances = 0;
            }),
          );
        },
        async remove() {
          if (service() === undefined) return;
          await call("service.delete", () => world.change((now) => delete now.services[name]));
        },
        ...(options.endsSecrets && { endsSecrets: true }),
        ...(options.beside && {
          keepsFiles: true,
          ownResources: async () => [
            ...(service()
              ? [beside("role", `${name}-role`, "delete", "deleted: the role with which it runs")]
              : []),
            beside("volume", `${name}-data`, "noop", "stays, with its jobs"),
          ],
          optionsOfLeft: async () => (service() ? [] : ["--max-instances", "2"]),
        }),
        async dropSecrets(names) {
          for (const key of names) {
            if (world.read().secrets[name]?.[key] === undefined) continue;
            await call(`secret.delete ${key}`, () => world.change((now) => delete now.secrets[name]?.[key]));
          }
        },
        ...(options.readable === false
          ? {}
          : {
              async readSecret(key: string, ref?: string) {
                const { all = [], version } = world.read().secrets[name]?.[key] ?? {};
                return all[Number(ref?.split(":")[1] ?? version) - 1];
              },
            }),
        async *logs() {
          yield "line one";
          yield "line two";
        },
      };
      if (options.locks)
        session.lock = async (holder) => {
          const other = world.read().locks[name];
          if (other !== undefined)
            throw new DeployError("locked", `"${name}" is being deployed by ${other}`, {
              fix: "Wait for it",
            });
          world.change((now) => {
            now.locks[name] = holder.holder;
          });
          return async () => {
            world.change((now) => delete now.locks[name]);
          };
        };
      return session;
    },
  };
}

/** What is equal in all places: the values of secrets, not their numbers. */
function versionOf(
  { image, env, secrets }: Pick<WorldRevision, "image" | "env" | "secrets"> = {
    image: "",
    env: {},
    secrets: {},
  },
  stored: World["secrets"][string],
): string {
  const variables = Object.entries(env).filter(([key]) => !MARKS.includes(key));
  const values = Object.entries(secrets).map(([key, ref]) => [
    key,
    stored[key]?.all[Number(ref.split(":")[1]) - 1],
  ]);
  return createHash("sha256")
    .update(JSON.stringify([image.split("@")[1], variables.sort(), values.sort()]))
    .digest("hex");
}

function addRevision(
  services: Record<string, WorldService>,
  name: string,
  spec: ReleaseSpec,
  held: boolean,
): void {
  services[name] ??= {
    id: `svc-${name}`,
    revisions: [],
    serving: undefined,
    instances: 1,
    pending: 0,
  };
  const one = services[name];
  const revision = toRevision(spec, `r${one.revisions.length + 1}`);
  one.revisions.push(revision);
  one.pending = 2;
  one.instances = 1;
  if (!held) one.serving = revision.name;
}

function toRevision(spec: ReleaseSpec, name: string): WorldRevision {
  return {
    name,
    image: spec.image,
    env: { ...spec.env },
    secrets: refsOf(spec),
    madeAt: Date.now(),
  };
}

function refsOf(spec: ReleaseSpec): Record<string, string> {
  return Object.fromEntries(Object.entries(spec.secrets).map(([key, secret]) => [key, secret?.ref ?? ""]));
}

function same(revision: WorldRevision, spec: ReleaseSpec): boolean {
  const wanted = toRevision(spec, revision.name);
  return JSON.stringify({ ...wanted, madeAt: 0 }) === JSON.stringify({ ...revision, madeAt: 0 });
}

function serve(world: WorldFile, name: string, revision: string): void {
  world.change((now) => {
    const one = now.services[name];
    if (one) one.serving = revision;
  });
}

function serving(one: WorldService): WorldRevision | undefined {
  return one.revisions.find((revision) => revision.name === one.serving);
}

function toRelease(one: WorldService, revision: WorldRevision | undefined, url: string): Release {
  const held = revision !== undefined && one.serving !== revision.name;
  return {
    id: one.id,
    revision: revision?.name,
    image: revision?.image,
    url,
    status: one.pending > 0 ? "deploying" : one.instances === 0 ? "stopped" : "running",
    ...(held ? { noTraffic: true, probeUrl: `${url}@${revision.name}` } : {}),
    env: revision?.env ?? {},
    secretNames: Object.keys(revision?.secrets ?? {}),
    resources: { cpu: "1", memory: "512Mi", instances: `${one.instances}` },
    data: { revision: revision?.name },
  };
}
