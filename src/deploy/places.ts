import { OURS } from "./config.ts";
import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import { requireDeployed } from "./not-deployed.ts";
import type { Release } from "./platform.ts";
import { earlierReleases } from "./rollback.ts";

/** Locks all places before one of them is changed, so that two runs never take turns. */
export async function lockAll(all: readonly Deployment[]): Promise<void> {
  for (const one of all) await one.lock();
}

/**
 * The deployment of a place that follows the first one: it gets the variables and secrets that the first one has, makes no key
 * of its own, and skips the commands that run once. A plan, which comes before the first one has them, gets those secrets
 * that it lacks.
 */
export async function following(
  deployment: Deployment,
  first: Deployment,
  { readOnly = false } = {},
): Promise<Deployment> {
  const { config, options, session } = deployment;
  const { beforeBuild: _, ...hooks } = config.hooks ?? {};
  const mine: Deployment = {
    ...deployment,
    options: {
      ...options,
      rotateKey: undefined,
      ...(readOnly ? {} : { generateApiKey: false, generateRsa: false }),
    },
    config: { ...config, release: undefined, hooks },
  };
  const [model, live] = [await first.session.inspect(), await session.inspect()];
  if (model === undefined) return mine;
  const there = readOnly ? (await session.listSecrets()).map(({ name }) => name) : [];
  const names = (model.secretNames ?? []).filter((name) => !there.includes(name));
  const secrets = await Promise.all(names.map((name) => secretOf(first, model, name)));
  const known = Object.entries(model.env ?? {}).filter(([name]) => !OURS.includes(name));
  const others = [...Object.keys(live?.env ?? {}), ...(live?.secretNames ?? [])].filter(
    (name) => !OURS.includes(name) && model.env?.[name] === undefined && !model.secretNames?.includes(name),
  );
  return {
    ...mine,
    config: {
      ...mine.config,
      environment: { ...Object.fromEntries(known), ...config.environment },
      secrets: [...config.secrets.filter(({ name }) => !names.includes(name)), ...secrets],
      removed: [...(config.removed ?? []), ...(readOnly ? [] : others)],
    },
  };
}

/** A secret of the release that serves in a place, with its value. */
async function secretOf({ session, place }: Deployment, { secrets }: Release, name: string) {
  const value = await session.readSecret?.(name, secrets?.[name]);
  if (value !== undefined) return { name, value };
  throw new DeployError("failed", `The value of ${name} could not be read from ${place}`, {
    detail: "The other places get it from there",
    fix: "svc deploy status says what is there; svc deploy up starts it",
  });
}

/** Rejects where not all places serve the same. */
export async function checkSame(all: readonly Deployment[]): Promise<void> {
  const served = await Promise.all(all.map(({ session }) => session.inspect()));
  if (new Set(served.map((live) => live?.version)).size === 1) return;
  throw new DeployError("usage", `Not all places serve the same: ${listed(all, served)}`, {
    outcome: "Nothing was changed",
    fix: "svc deploy up has all of them serve the newest version",
  });
}

/**
 * The release of each place that a rollback goes to: the same in all of them. Undefined where it serves already. Without a name it
 * is the one before that which all of them serve.
 */
export async function commonRelease(
  all: readonly Deployment[],
  wanted: string | undefined,
): Promise<readonly (Release | undefined)[]> {
  const known = await Promise.all(
    all.map(async (deployment) => {
      const live = await requireDeployed(deployment, "there is nothing to roll back");
      return { live, earlier: await earlierReleases(deployment, live), place: deployment.place };
    }),
  );
  const served = known.map(({ live }) => live);
  const every = known.flatMap(({ live, earlier }) => [live, ...earlier]);
  const isMixed = new Set(served.map(({ version }) => version)).size > 1;
  if (wanted === undefined && isMixed)
    throw new DeployError("usage", `Not all places serve the same: ${listed(all, served)}`, {
      outcome: "Nothing was changed",
      fix: `Name what should serve everywhere: ${choices(served)}`,
    });
  const chosen =
    wanted === undefined ? known[0]?.earlier[0] : every.find(({ revision }) => revision === wanted);
  if (chosen === undefined)
    throw new DeployError(
      wanted === undefined ? "not_deployed" : "usage",
      wanted === undefined ? "There is no earlier release" : `--to ${wanted}: no such revision`,
      { outcome: "Nothing was changed", fix: `Deploy with svc deploy up, or choose: ${choices(every)}` },
    );
  return known.map(({ live, earlier, place }) => {
    if (live.version === chosen.version) return undefined;
    const mine = earlier.find(({ version }) => version === chosen.version);
    if (mine !== undefined) return mine;
    throw new DeployError("usage", `${place} does not have the release ${chosen.revision}`, {
      outcome: "Nothing was changed",
      fix: `Choose one that all have, or deploy that version with svc deploy up. There: ${choices([live, ...earlier])}`,
    });
  });
}

/** A failure in one of several places, with what serves in each, and how all of them serve the same again. */
export async function failedIn(all: readonly Deployment[], failure: DeployError): Promise<DeployError> {
  const served = await Promise.all(all.map(({ session }) => session.inspect().catch(() => null)));
  const known = served.flatMap((live) => live ?? []);
  const isMixed = new Set(known.map(({ version }) => version)).size > 1;
  const back = `To have all serve the same again: ${choices(known)}`;
  return new DeployError(failure.code, failure.message, {
    ...failure,
    outcome: [failure.outcome, `In all places: ${listed(all, served)}`].filter(Boolean).join(". "),
    fix: isMixed ? [failure.fix, back].filter(Boolean).join(". ") : failure.fix,
    facts: {
      ...failure.facts,
      places: Object.fromEntries(
        all.map(({ place = "" }, index) => [place, served[index]?.revision ?? null]),
      ),
    },
    cause: failure,
  });
}

function choices(releases: readonly Release[]): string {
  const one = new Map(releases.map((release) => [release.version, release.revision]));
  return [...one.values()].map((revision) => `svc deploy rollback --to ${revision}`).join(", or ");
}

/** The places with what serves there, as text; null where that is unknown. */
function listed(all: readonly Deployment[], served: readonly (Release | null | undefined)[]): string {
  return all
    .map(({ place }, index) => {
      const live = served[index];
      if (live === null) return `${place} could not be asked`;
      return `${place} serves ${live === undefined ? "nothing" : `revision ${live.revision}`}`;
    })
    .join(", ");
}
