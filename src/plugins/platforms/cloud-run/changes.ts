import { isDeepStrictEqual } from "node:util";
import type { ReleaseSpec } from "../../../deploy/platform.ts";
import { changesOf, type FieldChange } from "../../../deploy/spec-changes.ts";
import type { CloudRunFlags } from "./flags.ts";
import { INGRESS, vpcText } from "./network.ts";
import type { Service, Template } from "./service-types.ts";
import { idlesBetweenRequests, wantedScaling, wantedTemplate } from "./template.ts";

/** Whether a rollout of the wanted template would create a revision identical to the newest one. */
export function isSameTemplate(live: Template | undefined, wanted: Template): boolean {
  const { revision: _, ...template } = live ?? {};
  return isDeepStrictEqual(template, wanted);
}

/** What a release would change besides image, variables and secrets. */
export function settingChanges(live: Service, spec: ReleaseSpec, flags: CloudRunFlags): FieldChange[] {
  const wanted = wantedTemplate(spec, flags, live.template);
  const [from, to] = [live.template?.containers?.[0], wanted.containers?.[0]];
  const scaling = wantedScaling(flags, live.scaling);
  return changesOf([
    ["port", from?.ports?.[0]?.containerPort, to?.ports?.[0]?.containerPort],
    ["cpu", from?.resources?.limits?.cpu, to?.resources?.limits?.cpu],
    ["memory", from?.resources?.limits?.memory, to?.resources?.limits?.memory],
    ["cpu_between_requests", !idlesBetweenRequests(from?.resources), !idlesBetweenRequests(to?.resources)],
    ["health_path", from?.startupProbe?.httpGet?.path, to?.startupProbe?.httpGet?.path],
    ["concurrency", live.template?.maxInstanceRequestConcurrency, wanted.maxInstanceRequestConcurrency],
    ["request_timeout", live.template?.timeout, wanted.timeout],
    ["network", vpcText(live.template?.vpcAccess), vpcText(wanted.vpcAccess)],
    ["ingress", live.ingress, flags.ingress === undefined ? live.ingress : INGRESS[flags.ingress]],
    ["service_account", live.template?.serviceAccount, wanted.serviceAccount],
    ["min_instances", live.scaling?.minInstanceCount ?? 0, scaling.minInstanceCount ?? 0],
    ["max_instances", live.scaling?.maxInstanceCount, scaling.maxInstanceCount],
    ["scaling", live.scaling?.scalingMode === "MANUAL" ? "manual" : "automatic", "automatic"],
  ]);
}
