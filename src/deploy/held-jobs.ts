import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import type { Release } from "./platform.ts";

/** What a check of the open jobs of a live service found; or why it could not be made. */
export type JobCheck =
  | {
      readonly known: true;
      readonly jobs: number;
      /** A line for each job that would not continue under the new code. */
      readonly problems: readonly string[];
    }
  | { readonly known: false; readonly reason: string };

/** Gives the open jobs of the service at this address to the code that is to be deployed. */
export type CheckJobs = (url: string, key: string) => Promise<JobCheck>;

/** Rejects where open jobs would not continue under the new code, unless that was accepted: then it is only reported. */
export async function guardHeldJobs(
  deployment: Deployment,
  live: Release | undefined,
  check: CheckJobs | undefined,
): Promise<void> {
  const { emit, target, options, tools, config, session } = deployment;
  if (!check || live?.url === undefined) return;
  const tell = (message: string) => emit({ type: "notice", level: "warning", message });
  const key =
    tools.env.SERVICE_API_KEY ??
    config.secrets.find(({ name }) => name === "SERVICE_API_KEY")?.value ??
    (await session.readSecret?.("SERVICE_API_KEY"));
  if (key === undefined || key === "")
    return tell(
      "Its open jobs were not checked against the new code: the key of the service is unknown here",
    );
  tools.redact(key);
  const url = `${live.url.replace(/\/$/, "")}${live.env?.SERVICE_API_PREFIX ?? ""}`;
  const found = await check(url, key);
  if (!found.known) return tell(`Its open jobs were not checked against the new code: ${found.reason}`);
  if (found.problems.length === 0) return;
  const count = `${found.problems.length} of ${found.jobs} open jobs on "${target.serviceName}"`;
  if (options.heldJobs === "ok")
    return tell(`${count} will not continue under the new code, as accepted by --held-jobs ok`);
  throw new DeployError("held_jobs", `${count} would not continue under the new code`, {
    detail: found.problems.slice(0, 20).join("\n"),
    outcome: "The service was not changed",
    fix: "Make the code fit them (svc check names the calls), or add --held-jobs ok to have them held until somebody decides",
    facts: { held_jobs: found.problems },
  });
}
