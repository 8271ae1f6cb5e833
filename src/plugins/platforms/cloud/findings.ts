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
