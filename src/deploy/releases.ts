import { createHash } from "node:crypto";
import type { PlatformSession, Release, ReleaseSpec, SecretRef } from "./platform.ts";
import type { DeployTools } from "./tools.ts";

/** What a release is made from. */
export interface ReleaseRecord {
  readonly image: string;
  readonly env: Readonly<Record<string, string>>;
  /** References of its secrets by environment variable; never a value. */
  readonly secrets: Readonly<Record<string, SecretRef>>;
}

/** A backend that runs one release, and can store a text beside it: a label, a tag, a file. */
export interface ReleaseBackend {
  /** The current release, with the text that was stored beside it; status `running` if it is running. */
  read(): Promise<(Pick<Release, "id" | "url" | "status"> & { readonly record: string }) | undefined>;
  /** Runs this instead of the current release, and stores the text beside it. */
  run(release: ReleaseRecord, record: string): Promise<unknown>;
}

/**
 * The releases of a session whose platform stores a line of text beside the running release that records what
 * it was made from. Repeating a release changes nothing; a rollback runs an earlier record again; a revision
 * is the hash of its record.
 *
 * @example
 * return { ...createReleases(tools, { read, run }), remove };
 */
export function createReleases(
  tools: DeployTools,
  place: ReleaseBackend,
): Pick<PlatformSession, "inspect" | "release" | "rollback"> {
  async function inspect(): Promise<Release | undefined> {
    const found = await place.read();
    if (found === undefined) return undefined;
    const { record, ...facts } = found;
    const { image, env, secrets } = parse(record);
    const revision = createHash("sha256").update(record).digest("hex").slice(0, 12);
    const refs = Object.fromEntries(Object.entries(secrets).map(([name, { ref }]) => [name, ref]));
    return {
      ...facts,
      ...{ revision, image, env },
      ...{ secretNames: Object.keys(refs), secrets: refs },
      data: { record },
    };
  }

  async function run(record: string): Promise<Release> {
    const live = await inspect();
    if (live?.status === "running" && live.data?.record === record) return live;
    await tools.journal({ step: "service.run" }, () => place.run(parse(record), record));
    const made = await inspect();
    if (made === undefined) throw new Error("The platform does not report the release that was just created");
    return made;
  }

  return {
    inspect,
    release: (spec) => run(recordOf(spec)),
    rollback: (to) => run(String(to.data?.record)),
  };
}

/** A release as text, whatever the order of its variables. */
function recordOf({ image, env, secrets }: ReleaseSpec): string {
  const sorted = (map: object) =>
    Object.fromEntries(Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1)));
  return JSON.stringify({ image, env: sorted(env), secrets: sorted(secrets) });
}

function parse(record: string): ReleaseRecord {
  return JSON.parse(record) as ReleaseRecord;
}
