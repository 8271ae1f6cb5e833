import type { DeploymentPlan, ResourceAction } from "../core/models/deployment.ts";
import { describeStorageUrl } from "../core/storage/storage-url.ts";
import type { Deployment } from "./deployment.ts";
import { DeployError, toDeployError } from "./errors.ts";
import { step } from "./events.ts";
import { storeOf } from "./job-store.ts";
import { liveWork } from "./live-work.ts";
import { guardOpenWork, type OpenWork } from "./open-work.ts";
import type { Release, StoredSecret } from "./platform.ts";
import { hashSecret } from "./secret-hash.ts";
import { isKeyOfJobs } from "./secrets.ts";
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
 * Removes a service: scales it to zero, deletes it and its secrets, and checks that it is gone. Images are kept, and where
 * jobs stay, the keys that read them.
 */
export async function down(deployment: Deployment, consent: Consent): Promise<DownOutcome> {
  const { session, emit, target, journal, state, limits, timeout } = deployment;
  await deployment.lock();
  const { live, secrets } = await step(emit, "inspect", async ({ note }) => {
    const found = { live: await session.inspect(), secrets: await session.listSecrets() };
    note(found.live?.status ?? "no service");
    return found;
  });
  const leaves = await leavesJobs(deployment, live);
  const isNeeded = leaves && !deployment.options.removeKeys;
  const keys = isNeeded ? secrets.filter(({ name }) => isKeyOfJobs(name)) : [];
  const kept = session.endsSecrets ? [] : keys.map(({ name }) => name);
  const beside = (await session.ownResources?.()) ?? [];
  const isDeleted = ({ action_type }: ResourceAction) => action_type === "delete";
  const left = [...kept.map(keyThatStays), ...beside];
  if (live === undefined && secrets.length === kept.length && !beside.some(isDeleted)) {
    // A removal that was killed before it had cleaned up also ends here.
    await session.remove();
    await state.remove();
    journal.finish();
    return { removed: [], left };
  }
  if (session.endsSecrets) await guardKeys(deployment, keys);
  const openWork = await liveWork(deployment, live, "removed");
  guardOpenWork(openWork, {
    serviceName: target.serviceName,
    fate: "its files are deleted when it is removed",
    accepted: deployment.options.acceptDataLoss,
    emit,
  });
  const plan = toPlan(deployment, { live, secrets, left });
  emit({ type: "plan", plan });
  if (!(await consent(plan)))
    throw new DeployError("declined", "Not removed: the plan was declined", {
      outcome: "Nothing was changed",
    });

  await journal.record({ step: "down", data: { leaves } }, async () => undefined);
  const whenOver = () =>
    new DeployError("timed_out", `"${target.serviceName}" is still being removed after ${timeout} s`, {
      fix: "Run the same command again: it continues to wait",
    });
  try {
    await limits.within(timeout, whenOver, async () => {
      await step(emit, "scale", () => session.scaleToZero());
      await step(emit, "remove", () => session.remove());
      await step(emit, "dropSecrets", async ({ note, skip }) => {
        const names = secrets.flatMap(({ name }) => (kept.includes(name) ? [] : [name]));
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
      .filter(isDeleted)
      .map((action) => `${action.resource_type} ${action.resource_name}`),
    left: plan.actions.filter(({ action_type }) => action_type === "noop"),
    openWork,
  };
}

/** Whether jobs stay where the service had them. Of one that is gone already, what its removal has noted counts. */
async function leavesJobs({ session, journal }: Deployment, live: Release | undefined): Promise<boolean> {
  if (live === undefined) return journal.recall("down")?.data.leaves !== false;
  const store = storeOf(live);
  if (store === "file") return session.keepsFiles === true;
  // Its own database is removed with its files.
  const ends = store === "database" && session.keepsFiles === false;
  return !(ends && typeof (await session.ownDatabase?.()) === "function");
}

/** Refuses to end keys of jobs that stay, unless their values are known here. */
async function guardKeys(deployment: Deployment, keys: readonly StoredSecret[]): Promise<void> {
  const { tools, platform, target, config } = deployment;
  const lost: string[] = [];
  for (const { name, hash } of keys) {
    const value = config.secrets.find((secret) => secret.name === name)?.value ?? tools.env[name];
    const isKnown =
      value && hash === (await hashSecret(value, { target: `${platform.name}/${target.serviceName}`, name }));
    if (!isKnown) lost.push(name);
  }
  if (lost.length === 0) return;
  const list = lost.join(", ");
  throw new DeployError(
    "open_work",
    `The jobs of "${target.serviceName}" stay, and the keys that read them would be lost: ${list}`,
    {
      detail: "They are a part of the service there, and the platform shows them to nobody",
      outcome: "Nothing was changed",
      fix: `Set ${list} to the values that the service has; or add --remove-keys, after which nobody can read its jobs`,
    },
  );
}

function keyThatStays(name: string): ResourceAction {
  return {
    ...{
      resource_type: "secret",
      action_type: "noop",
      resource_name: name,
      cost_estimate: null,
      metadata: null,
    },
    description:
      "stays: without it, the jobs that stay cannot be read. The next svc deploy up uses it; --remove-keys removes it",
  };
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
  const kept = left.map(({ resource_name }) => resource_name);
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
      ...secrets.flatMap(({ name }) => (kept.includes(name) ? [] : [remove("secret", name, "deleted")])),
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
