import { createHash } from "node:crypto";
import { tagsOf } from "../aws/tags.ts";
import { instancesText } from "../cloud/instances-text.ts";
import type { Context } from "./context.ts";

interface Scaling {
  readonly AutoScalingConfigurationArn?: string;
  readonly AutoScalingConfigurationName?: string;
  readonly Status?: string;
}

export interface Range {
  readonly MinSize: number;
  readonly MaxSize: number;
  /** Requests at the same time on one instance; App Runner's own default is 100. */
  readonly MaxConcurrency?: number;
}

/** The range of a configuration: ours have it in their name, App Runner's own default is 1 to 25. */
export function rangeOf(arn: string | undefined): Range {
  const [, least, most, requests] = /\/svc-[0-9a-f]+-(\d+)-(\d+)(?:-(\d+))?\//.exec(arn ?? "") ?? [];
  return {
    MinSize: Number(least ?? 1),
    MaxSize: Number(most ?? 25),
    ...(requests === undefined ? {} : { MaxConcurrency: Number(requests) }),
  };
}

export function rangeText({ MinSize, MaxSize, MaxConcurrency }: Range): string {
  const requests = MaxConcurrency === undefined ? "" : `, ${MaxConcurrency} requests each`;
  return `${instancesText(MinSize, MaxSize)}${requests}`;
}

/** The requested instance range, if any; a limit that is not requested stays unchanged. */
export function wantedRange({ target }: Context, live: string | undefined): Range | undefined {
  const { minInstances, maxInstances, concurrency } = target.flags;
  if ([minInstances, maxInstances, concurrency].every((value) => value === undefined)) return undefined;
  const before: Range = live === undefined ? { MinSize: 1, MaxSize: 1 } : rangeOf(live);
  const MinSize = minInstances ?? Math.min(before.MinSize, maxInstances ?? before.MinSize);
  const MaxConcurrency = concurrency ?? before.MaxConcurrency;
  return {
    MinSize,
    MaxSize: maxInstances ?? Math.max(MinSize, before.MaxSize),
    ...(MaxConcurrency === undefined ? {} : { MaxConcurrency }),
  };
}

/**
 * A configuration of that range; the range is in its name because each call with the same name creates
 * another revision.
 */
export async function ensureScaling(context: Context, live: string | undefined): Promise<string | undefined> {
  const range = wantedRange(context, live);
  if (range === undefined) return undefined;
  const name = nameOf(context, range);
  const find = async () => {
    const all = await listScaling(context, name);
    return all.find(({ AutoScalingConfigurationName }) => AutoScalingConfigurationName === name);
  };
  const found = await find();
  if (found) return found.AutoScalingConfigurationArn;
  const { aws, target, tools } = context;
  const made = await tools.journal({ step: "scaling.create", data: { name } }, () =>
    aws.send<{ AutoScalingConfiguration?: Scaling }>(
      "apprunner",
      "CreateAutoScalingConfiguration",
      { AutoScalingConfigurationName: name, ...range, Tags: tagsOf(target) },
      {
        reread: async () => {
          const AutoScalingConfiguration = await find();
          return AutoScalingConfiguration && { AutoScalingConfiguration };
        },
      },
    ),
  );
  return made.AutoScalingConfiguration?.AutoScalingConfigurationArn;
}

/** Whether a service has the requested range. */
export function hasWantedScaling(context: Context, arn: string | undefined): boolean {
  const range = wantedRange(context, arn);
  return range === undefined || arn?.includes(`/${nameOf(context, range)}/`) === true;
}

/** Deletes the configurations of this target that are no longer used. */
export async function dropScaling(context: Context, keep?: string): Promise<void> {
  for (const { AutoScalingConfigurationArn: arn } of await listScaling(context, prefixOf(context))) {
    if (arn === undefined || arn === keep) continue;
    await context.tools.journal({ step: "scaling.delete", data: { arn } }, () =>
      context.aws.send(
        "apprunner",
        "DeleteAutoScalingConfiguration",
        { AutoScalingConfigurationArn: arn },
        { idempotent: true },
      ),
    );
  }
}

function nameOf(context: Context, { MinSize, MaxSize, MaxConcurrency }: Range): string {
  return [
    prefixOf(context),
    MinSize,
    MaxSize,
    ...(MaxConcurrency === undefined ? [] : [MaxConcurrency]),
  ].join("-");
}

/** Names have at most 32 characters, fewer than those of services. */
function prefixOf({ target }: Context): string {
  return `svc-${createHash("sha256").update(target.serviceName).digest("hex").slice(0, 10)}`;
}

async function listScaling({ aws }: Context, start: string): Promise<Scaling[]> {
  const all: Scaling[] = [];
  for await (const page of aws.pages<{ AutoScalingConfigurationSummaryList?: Scaling[] }>(
    "apprunner",
    "ListAutoScalingConfigurations",
    { MaxResults: 100 },
  ))
    all.push(...(page.AutoScalingConfigurationSummaryList ?? []));
  return all.filter(
    ({ AutoScalingConfigurationName: name = "", Status }) =>
      (name === start || name.startsWith(`${start}-`)) && Status !== "INACTIVE",
  );
}
