import { rm } from "node:fs/promises";
import { join } from "node:path";
import * as v from "valibot";
import { readIfThere } from "../core/base/read-if-there.ts";
import { type DeploymentState, DeploymentStateSchema } from "../core/models/deployment.ts";
import { writeAtomic } from "./atomic-file.ts";
import { DeployError } from "./errors.ts";
import type { Release } from "./platform.ts";

/** The engine's own part of a state file: in `provider_data`. */
export interface StateDetails {
  /** The release that serves, as the platform described it. */
  readonly release?: Release;
  /** Earlier releases, newest first. */
  readonly previous?: readonly Release[];
  /** Hash of the files that the image was built from. */
  readonly context_hash?: string;
  /** Full name of the image by digest. */
  readonly image?: string;
  /** Keyed hashes of the secrets as last stored. */
  readonly secret_hashes?: Readonly<Record<string, string>>;
  /** Set by a rollback: traffic goes to an older revision than the newest. */
  readonly pinned?: boolean;
  readonly last_health?: Readonly<Record<string, unknown>>;
}

/** The stored state of one target between commands: a cache of what the platform knows, never a secret. */
export interface StateFile {
  readonly path: string;
  read(): Promise<DeploymentState | undefined>;
  write(state: DeploymentState): Promise<void>;
  remove(): Promise<void>;
}

export interface StateKey {
  readonly cwd: string;
  readonly platform: string;
  readonly serviceName: string;
  /** Where the platform has several places for services of the same name, such as machines. */
  readonly place?: string | undefined;
}

/** Beginning of the paths of a target's state, journal and lock. */
export function stateBase({ cwd, platform, serviceName, place }: StateKey): string {
  const folder = join(cwd, ".deployment", "state", platform);
  return join(
    folder,
    place === undefined ? "" : encodeURIComponent(place).replace(/^\./, "%2E"),
    serviceName,
  );
}

/**
 * The state file of one platform, name and environment. `.deployment/state.json` is a copy of the one written
 * last; if it is the only one, it is used, also in format version 1.
 */
export function openState(key: StateKey): StateFile {
  const path = `${stateBase(key)}.json`;
  const latest = join(key.cwd, ".deployment", "state.json");
  return {
    path,
    async read() {
      const own = await readIfThere(path);
      if (own !== undefined) return parseState(own, path);
      const shared = await readIfThere(latest);
      if (shared === undefined) return undefined;
      const state = parseState(shared, latest);
      // It does not say at which place.
      if (key.place !== undefined) return undefined;
      const mine = state.platform === key.platform && state.service_name === key.serviceName;
      return mine ? state : undefined;
    },
    async write(state) {
      const text = `${JSON.stringify(state, null, 2)}\n`;
      await writeAtomic(path, text);
      await writeAtomic(latest, text);
    },
    async remove() {
      const shared = await readIfThere(latest);
      if (shared !== undefined) {
        const state = parseState(shared, latest);
        if (state.platform === key.platform && state.service_name === key.serviceName)
          await rm(latest, { force: true });
      }
      await rm(path, { force: true });
    },
  };
}

/** Parses a state file of any version. */
export function parseState(text: string, path: string): DeploymentState {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch (error) {
    throw unreadable(path, "it is not JSON", error);
  }
  if (typeof raw !== "object" || raw === null) throw unreadable(path, "it is not an object");
  const { version } = raw as { version?: unknown };
  if (typeof version === "number" && version > 2)
    throw new DeployError("failed", `${path} has format version ${version}`, {
      detail: "This version of svc supports versions 1 and 2",
      fix: "Use the newer version of svc that wrote it",
    });
  const parsed = v.safeParse(DeploymentStateSchema, version === 2 ? raw : migrate(raw));
  if (!parsed.success) {
    const [issue] = parsed.issues;
    throw unreadable(path, `${v.getDotPath(issue) ?? "it"}: ${issue.message}`);
  }
  return parsed.output;
}

/** Format version 1 had no `version`, `port`, key flags or `provider_data`, and called the environment `env`. */
function migrate(raw: object): unknown {
  const { env, provider, metadata, ...rest } = raw as Record<string, unknown>;
  const unknown = new Date(0).toISOString();
  return {
    environment: env,
    created_at: unknown,
    updated_at: unknown,
    provider_data: provider ?? metadata ?? {},
    ...rest,
    version: 2,
  };
}

/** The engine's own part of a state. */
export function detailsOf(state: DeploymentState | undefined): StateDetails {
  return (state?.provider_data ?? {}) as StateDetails;
}

function unreadable(path: string, why: string, cause?: unknown): DeployError {
  return new DeployError("failed", `${path} cannot be read: ${why}`, {
    fix: "Move the file away; svc deploy status reads the current state from the platform",
    cause,
  });
}
