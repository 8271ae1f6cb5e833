import { DeployError } from "./errors.ts";
import type { DeployTarget, Platform } from "./platform.ts";
import type { FieldChange } from "./spec-changes.ts";

type Labels = Readonly<Record<string, string>>;
type WithLabels = Pick<DeployTarget<unknown>, "labels">;

/** By these svc knows what is its own. */
const RESERVED = /^(managed-by$|svc-)/;

/** Rejects labels that the platform would refuse, or that svc itself sets. */
export function checkLabels(
  platform: Pick<Platform<never>, "name" | "checkLabel">,
  labels: DeployTarget["labels"] = {},
): void {
  for (const [name, value] of Object.entries(labels)) {
    const problem =
      platform.checkLabel === undefined
        ? `services on ${platform.name} have no labels`
        : RESERVED.test(name)
          ? "svc sets this one itself"
          : platform.checkLabel(name, value ?? "");
    if (problem === undefined) continue;
    throw new DeployError("bad_config", `The label "${name}" cannot be set: ${problem}`, {
      outcome: "Nothing was changed",
      fix: 'Change it under "labels" in deploy.yaml, or remove it there',
    });
  }
}

/** All labels of a service after a release, from those that it has. */
export function wantedLabels({ labels = {} }: WithLabels, live: Labels = {}): Record<string, string> {
  const wanted: Record<string, string> = { ...live };
  for (const [name, value] of Object.entries(labels)) {
    if (value === null) delete wanted[name];
    else wanted[name] = value;
  }
  return wanted;
}

/** What a release changes of the labels. */
export function labelChanges(target: WithLabels, live: Labels): FieldChange[] {
  const wanted = wantedLabels(target, live);
  return Object.keys(target.labels ?? {})
    .filter((name) => wanted[name] !== live[name])
    .map((name) => ({ field: `label.${name}`, from: live[name] ?? null, to: wanted[name] ?? null }));
}
