import { rsaKeyNames } from "../core/base/numbered-keys.ts";
import type { DeploymentPlan, ResourceAction } from "../core/models/deployment.ts";
import { describeStorageUrl } from "../core/storage/storage-url.ts";
import type { Deployment } from "./deployment.ts";
import { DeployError, toDeployError } from "./errors.ts";
import { step, warn } from "./events.ts";
import { liveWork } from "./live-work.ts";
import { guardOpenWork, type OpenWork } from "./open-work.ts";
import type { Release, StoredSecret } from "./platform.ts";
import { standing } from "./standing.ts";
import { storageOf } from "./storage.ts";
import type { Consent } from "./up.ts";

export interface DownOutcome {
  /** What was removed; empty if nothing existed. */
  readonly removed: readonly string[];
  /** What stays, and how a service has it again. */
  readonly left: readonly ResourceAction[];
  /** Jobs that were open on the service, if its files were removed too. */
  readonly openWork?: OpenWork | undefined;
}

/**
 * Removes a service: scales it to zero, deletes it and its secrets, and checks that it is gone. Images are
 * kept.
 */
export async function down(deployment: Deployment, consent: Consent): Promise<DownOutcome> {
  const { session, emit, target, journal, state, limits, timeout } = deployment;
  await deployment.lock();
  const { live, secrets } = await step(emit, "inspect", async ({ note }) => {
    const found = { live: await session.inspect(), secrets: await session.listSecrets() };
    note(found.live?.status ?? "no service");
    return found;
  });
  if (live === undefined && secrets.length === 0) {
    // A removal that was killed before it had cleaned up also ends here.
    await session.remove();
    await state.remove();
    journal.finish();
    return { removed: [], left: (await session.left?.()) ?? [] };
  }
  const openWork = await liveWork(deployment, live, "removed");
  guardOpenWork(openWork, {
    serviceName: target.serviceName,
    fate: "its files are deleted when it is removed",
    accepted: deployment.options.acceptDataLoss,
    emit,
  });
  const plan = toPlan(deployment, { live, secrets, left: (await session.left?.()) ?? [] });
  const left = plan.actions.filter(({ action_type }) => action_type === "noop");
  warnOfKeys(deployment, secrets, left);
  emit({ type: "plan", plan });
  if (!(await consent(plan)))
    throw new DeployError("declined", "Not removed: the plan was declined", {
      outcome: "Nothing was changed",
    });

  await journal.record({ step: "down" }, async () => undefined);
  const whenOver = () =>
    new DeployError("timed_out", `"${target.serviceName}" is still being removed after ${timeout} s`, {
      fix: "Run the same command again: it continues to wait",
    });
  try {
    await limits.within(timeout, whenOver, async () => {
      await step(emit, "scale", () => session.scaleToZero());
      await step(emit, "remove", () => session.remove());
      await step(emit, "dropSecrets", async ({ note, skip }) => {
        const names = secrets.map((secret) => secret.name);
        if (names.length === 0) return skip("there are none");
        await session.dropSecrets(names);
        note(names.join(", "));
      });
      await step(emit, "confirm", () => confirmGone(deployment));
    });
  } catch (error) {
    throw toDeployError(error, `"${target.serviceName}" was not completely removed`).with({
      outcome: standing(journal),
      fix: "Run the same command again: it continues with what is left",
    });
  }
  await state.remove();
  journal.finish();
  return {
    removed: plan.actions
      .filter(({ action_type }) => action_type === "delete")
      .map((action) => `${action.resource_type} ${action.resource_name}`),
    left,
    openWork,
  };
}

/** A store that stays is known by its RSA key: another one cannot use it. */
function warnOfKeys(
  { emit, session }: Deployment,
  secrets: readonly StoredSecret[],
  left: readonly ResourceAction[],
): void {
  const keys = rsaKeyNames(secrets.map(({ name }) => name));
  if (left.length === 0 || keys.length === 0) return;
  const [values, them] = keys.length === 1 ? ["value", "it"] : ["values", "them"];
  const commands = keys.flatMap((name) => session.secretCommand?.(name) ?? []);
  warn(
    emit,
    `The jobs that stay can be used only with the present ${values} of ${keys.join(" and ")}: the removal deletes ${them}`,
    commands.length === 0
      ? undefined
      : `Unless you have ${them}, read ${them} before: ${commands.join("; ")}`,
  );
}

async function confirmGone({ session, target }: Deployment): Promise<void> {
  if ((await session.inspect()) === undefined) return;
  throw new DeployError("failed", `"${target.serviceName}" still exists after its removal`, {
    fix: "Run svc deploy status in a minute",
  });
}

/** What is left where the service ran, as text: a machine without a registry has the images too. */
function whatStays({ push, keepsFiles }: Deployment["session"]): string {
  if (!push) return "; its images stay";
  if (keepsFiles === undefined) return "";
  return keepsFiles ? "; its data and images stay" : ", with its data and images";
}

function toPlan(
  { platform, target, session }: Deployment,
  found: {
    readonly live: Release | undefined;
    readonly secrets: readonly StoredSecret[];
    readonly left: readonly ResourceAction[];
  },
): DeploymentPlan {
  const { live, secrets, left } = found;
  const remove = (
    resource_type: ResourceAction["resource_type"],
    resource_name: string,
    description: string,
  ) => ({
    resource_type,
    action_type: "delete" as const,
    resource_name,
    description,
    cost_estimate: null,
    metadata: null,
  });
  const storage = storageOf(live);
  return {
    platform: platform.name,
    service_name: target.serviceName,
    environment: target.environment,
    region: target.region,
    project_id: target.projectId ?? null,
    actions: [
      ...(live
        ? [remove("service", target.serviceName, `scaled to zero, then deleted${whatStays(session)}`)]
        : []),
      ...secrets.map((secret) => remove("secret", secret.name, "deleted")),
      ...(storage === undefined
        ? []
        : [
            {
              ...remove("bucket", describeStorageUrl(storage), "stays, with the jobs in it"),
              action_type: "noop" as const,
            },
          ]),
      ...left,
    ],
    total_cost_estimate: null,
    estimated_duration: null,
    current_image: live?.image ?? null,
    current_url: live?.url ?? null,
    current_status: live?.status ?? null,
    target_image: live?.image ?? "",
    target_port: target.port,
    target_env_vars: {},
    target_secrets: {},
  };
}
