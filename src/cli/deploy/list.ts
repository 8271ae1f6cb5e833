import { listEnvironments, type RunningEnvironment } from "../../deploy/environments.ts";
import { whereOf } from "../../deploy/not-deployed.ts";
import { renderTable } from "../table.ts";
import * as flags from "./flags.ts";
import { platformCommand } from "./platform-command.ts";
import { tellResult } from "./result.ts";

/** `svc deploy list`: the environments of this project that run on the platform. */
export const listCommand = platformCommand({
  usage: "list",
  summary: "Show all environments of this project that run on the platform, with health and expiry",
  flags: { ...flags.TARGET_FLAGS, ...flags.VERBOSE, ...flags.JSON_FLAG },
  examples: ["svc deploy list", "svc deploy list --env preview-x --json"],
  run: async ({ shell, deployment, open }) => {
    const { platform, target, tools } = deployment;
    const found = await listEnvironments(deployment, open);
    const none = `No environment of ${target.name} runs on ${platform.name} (${whereOf(deployment)}).`;
    return tellResult(shell, {
      document: {
        platform: platform.name,
        name: target.name,
        region: target.region,
        project_id: target.projectId ?? null,
        environments: found.map(toDocument),
      },
      lines: [found.length === 0 ? none : table(found, tools.now())],
    });
  },
});

function toDocument({ environment, serviceName, since, expires, live, health, problem }: RunningEnvironment) {
  return {
    environment,
    service_name: serviceName,
    service_url: live?.url ?? null,
    status: live?.status ?? null,
    health: health?.status ?? null,
    image: live?.image ?? null,
    revision: live?.revision ?? null,
    since: since ?? null,
    expires: expires?.toISOString() ?? null,
    problem: problem ?? null,
  };
}

const HEAD = ["ENVIRONMENT", "HEALTH", "IMAGE", "SINCE", "EXPIRES", "URL"];

function table(found: readonly RunningEnvironment[], now: Date): string {
  const day = (text: string | undefined) => text?.slice(0, 16).replace("T", " ") ?? "";
  const rows = found.map(({ environment, health, live, since, expires, problem }) => [
    environment,
    problem ?? health?.status ?? live?.status ?? "",
    imageOf(live?.image),
    day(since),
    expires === undefined ? "never" : `${day(expires.toISOString())}${expires <= now ? " (over)" : ""}`,
    live?.url ?? "",
  ]);
  return renderTable(HEAD, rows);
}

/** The end of an image's name: its tag, or the start of its digest. */
function imageOf(image: string | undefined): string {
  const last = image?.split("/").at(-1) ?? "";
  const [, digest] = last.split("@sha256:");
  return digest === undefined ? last : digest.slice(0, 12);
}
