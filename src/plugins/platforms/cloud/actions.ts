import type { ResourceAction, ResourceType } from "../../../core/models/deployment.ts";
import type { Release, ReleaseSpec } from "../../../deploy/platform.ts";
import { type FieldChange, specChanges } from "../../../deploy/spec-changes.ts";

export interface ReleaseActionsInput {
  readonly serviceName: string;
  readonly spec: ReleaseSpec;
  readonly live: Release | undefined;
  /** Changes to the service beyond image, variables and secrets. */
  readonly changes?: readonly FieldChange[];
  readonly cost?: string | undefined;
}

/**
 * The actions of a release that all clouds share: the service and its variables. Secrets are planned by the
 * engine.
 */
export function releaseActions(input: ReleaseActionsInput): ResourceAction[] {
  const { serviceName, spec, live, changes = [], cost } = input;
  const all = [...specChanges(spec, live), ...changes];
  const verb = live === undefined ? "create" : all.length === 0 ? "noop" : "update";
  const actions: ResourceAction[] = [];
  for (const change of all)
    if (change.field.startsWith("env.") && live !== undefined) actions.push(variableAction(change));
  if (live === undefined)
    for (const key of Object.keys(spec.env).sort())
      actions.push(variableAction({ field: `env.${key}`, from: null, to: spec.env[key] ?? "" }, "create"));
  actions.push({
    resource_type: "service",
    action_type: verb,
    resource_name: serviceName,
    description: describe(verb),
    cost_estimate: cost ?? null,
    metadata: { changes: all.map((change) => ({ ...change })) },
  });
  return actions;
}

/** One action of a kind other than the above. */
export function resourceAction(
  type: ResourceType,
  name: string,
  exists: boolean,
  description: string,
): ResourceAction {
  return {
    resource_type: type,
    action_type: exists ? "noop" : "create",
    resource_name: name,
    description: exists ? `${description} (exists)` : description,
    cost_estimate: null,
    metadata: null,
  };
}

function variableAction(change: FieldChange, verb: "create" | "update" = "update"): ResourceAction {
  const action = change.to === null ? "delete" : verb;
  const words = { create: "set", update: change.from === null ? "added" : "changed", delete: "removed" };
  return {
    resource_type: "environment_variable",
    action_type: action,
    resource_name: change.field.slice("env.".length),
    description: `Variable ${words[action]}`,
    cost_estimate: null,
    metadata: { changes: [{ ...change }] },
  };
}

function describe(verb: "create" | "update" | "noop"): string {
  if (verb === "create") return "Service created with its first revision";
  return verb === "update" ? "New revision rolled out" : "Already running as configured";
}
