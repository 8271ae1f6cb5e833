import { isDeepStrictEqual } from "node:util";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { Release } from "../../../deploy/platform.ts";
import { isDenied } from "../aws/denied.ts";
import type { AwsTag } from "../aws/tags.ts";
import { type Source, toSource, wantedAccessRole } from "./configuration.ts";
import type { Context } from "./context.ts";
import { releaseOf, sourceOf, toRelease } from "./release-of.ts";
import type { Service } from "./service-types.ts";
import { findOwnService, listTags } from "./services.ts";

/** What a release was made from: names of secrets, never their values. */
interface KeptRelease extends Source {
  readonly revision: string;
  /** Counts up: clocks of machines differ. */
  readonly number: number;
  /** The tags that hold it. */
  readonly keys: readonly string[];
}

/** `svc-release-<number>-<part>-<of>`. */
const KEY = /^svc-release-(\d+)-(\d+)-(\d+)$/;
/** Tags hold 256 characters each. */
const PIECE = 250;
/** Tags of a service, and how many of them releases may use. */
const TAGS = 50;
const ROOM = 30;

/** Keeps what serves now as tags of the service, before it is replaced: App Runner has no earlier revisions. */
export async function keepRelease(context: Context, service: Service): Promise<void> {
  const { tools, target } = context;
  const { revision } = await toRelease(context, service);
  const tags = await listTags(context, service);
  const kept = keptReleases(tags);
  // A killed run has kept it.
  if (revision === undefined || kept.some((one) => one.revision === revision)) return;
  const made = toTags({ ...sourceOf(service), revision }, (kept[0]?.number ?? 0) + 1);
  const others = tags.length - kept.reduce((sum, { keys }) => sum + keys.length, 0);
  let free = Math.min(ROOM, TAGS - others) - made.length;
  if (free < 0)
    return tools.report(
      `what "${target.serviceName}" runs does not fit in its tags: only this checkout can roll back to it`,
    );
  const dropped = kept.flatMap(({ keys }) => {
    free -= keys.length;
    return free < 0 ? keys : [];
  });
  try {
    await tools.journal({ step: "service.keep" }, async () => {
      const of = { ResourceArn: service.ServiceArn };
      const again = { idempotent: true };
      if (dropped.length > 0)
        await context.aws.send("apprunner", "UntagResource", { ...of, TagKeys: dropped }, again);
      await context.aws.send("apprunner", "TagResource", { ...of, Tags: made }, again);
    });
  } catch (error) {
    if (!isDenied(error)) throw error;
    tools.report(`what runs was not kept for a rollback from other checkouts: ${error.message}`);
  }
}

/** Kept releases that differ from what serves: those before it, newest first, then those after it. */
export async function releaseHistory(context: Context): Promise<Release[]> {
  const service = await findOwnService(context);
  if (service === undefined) return [];
  const live = sourceOf(service);
  const isLive = ({ image, port, env, secrets }: KeptRelease) =>
    isDeepStrictEqual({ image, port, env, secrets }, live);
  const kept = keptReleases(await listTags(context, service));
  const at = kept.findIndex(isLive);
  return [...kept.slice(at + 1), ...kept.slice(0, Math.max(at, 0))]
    .filter((release) => !isLive(release))
    .map(({ revision, ...source }) =>
      releaseOf(
        { ...service, SourceConfiguration: toSource(wantedAccessRole(context, service), source) },
        revision,
      ),
    );
}

/** The releases that tags hold, newest first; one that lacks a part is none. */
export function keptReleases(tags: readonly AwsTag[]): KeptRelease[] {
  const parts = new Map<string, { key: string; part: number; of: number; value: string }[]>();
  for (const { Key: key = "", Value: value = "" } of tags) {
    const [, number, part, of] = KEY.exec(key) ?? [];
    if (number === undefined) continue;
    parts.set(number, [...(parts.get(number) ?? []), { key, part: Number(part), of: Number(of), value }]);
  }
  return [...parts]
    .flatMap(([number, pieces]) => {
      const sorted = pieces.sort((a, b) => a.part - b.part);
      if (sorted.length !== sorted[0]?.of) return [];
      const packed = Buffer.from(sorted.map(({ value }) => value).join(""), "base64");
      const release = JSON.parse(inflateRawSync(packed).toString("utf8")) as Source & { revision: string };
      return { ...release, number: Number(number), keys: sorted.map(({ key }) => key) };
    })
    .sort((a, b) => b.number - a.number);
}

function toTags(release: Source & { readonly revision: string }, number: number): AwsTag[] {
  const packed = deflateRawSync(JSON.stringify(release)).toString("base64");
  const of = Math.ceil(packed.length / PIECE);
  return Array.from({ length: of }, (_, part) => ({
    Key: `svc-release-${number}-${part}-${of}`,
    Value: packed.slice(part * PIECE, (part + 1) * PIECE),
  }));
}
