import { DeployError } from "../../../deploy/errors.ts";
import type { DeployTarget, Finding } from "../../../deploy/platform.ts";

type Named = Pick<DeployTarget, "serviceName">;

const FIX = "Choose another name with --name";

/** What prevents a deployment under a name that somebody else's service has. */
export function foreignName({ serviceName }: Named, what = "a service"): Finding {
  return {
    level: "error",
    subject: "name",
    message: `${what} "${serviceName}" already exists and does not belong to this target`,
    fix: FIX,
  };
}

/** For a service that somebody else created: it is left alone. */
export function notOwn(
  { serviceName }: Named,
  { what = "Service", fix = FIX, detail }: NotOwn = {},
): DeployError {
  return new DeployError("failed", `${what} "${serviceName}" does not belong to this target`, {
    ...(detail === undefined ? {} : { detail }),
    outcome: "It was not changed",
    fix,
  });
}

interface NotOwn {
  readonly what?: string;
  readonly fix?: string;
  readonly detail?: string;
}

/** For a service that was removed meanwhile. */
export function noLonger({ serviceName }: Named, what = "Service"): DeployError {
  return new DeployError("not_deployed", `${what} "${serviceName}" no longer exists`);
}

/** For a release that its cloud has given up on, and may have replaced by the one before. */
export function didNotStart(
  { serviceName }: Named,
  { rolledBack, detail, log }: { rolledBack: boolean; detail: string; log: readonly string[] },
): DeployError {
  return new DeployError(rolledBack ? "rolled_back" : "failed", `"${serviceName}" did not start`, {
    detail,
    outcome: rolledBack ? "The previous version is serving" : undefined,
    log,
  });
}

/** For an earlier release of which nothing says what it ran. */
export function notDescribed(by: string): DeployError {
  return new DeployError(
    "failed",
    `The release to roll back to is described neither by ${by} nor in the state file`,
    {
      fix: "Deploy its image again: svc deploy up --image TAG",
    },
  );
}

/** What is wrong with a range of instances. */
export function rangeFindings({
  minInstances = 1,
  maxInstances = minInstances,
}: {
  readonly minInstances?: number | undefined;
  readonly maxInstances?: number | undefined;
}): Finding[] {
  if (maxInstances >= minInstances) return [];
  return [
    {
      level: "error",
      subject: "instances",
      message: `--max-instances ${maxInstances} is below --min-instances ${minInstances}`,
      fix: "Raise --max-instances or lower --min-instances",
    },
  ];
}
