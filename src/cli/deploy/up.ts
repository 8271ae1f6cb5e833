import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import { describeContinued } from "../../deploy/continued.ts";
import type { Deployment } from "../../deploy/deployment.ts";
import { HELD_JOBS } from "../../deploy/held-jobs.ts";
import { whereOf } from "../../deploy/not-deployed.ts";
import { checkSame, following, lockAll } from "../../deploy/places.ts";
import { formerKeys, ROTATED_KEYS, type RotatedKey } from "../../deploy/rotate-key.ts";
import { type Consent, type UpOutcome, up } from "../../deploy/up.ts";
import { checkJobsWith } from "./check-jobs.ts";
import * as flags from "./flags.ts";
import { planTable } from "./plan-table.ts";
import { platformCommand } from "./platform-command.ts";
import type { PlatformRun } from "./platform-run.ts";
import { type Result, tellResult } from "./result.ts";
import type { Shell } from "./session.ts";
import { inTurn } from "./several.ts";

const UP_FLAGS = {
  ...flags.TARGET_FLAGS,
  ...flags.RELEASE_FLAGS,
  ...flags.ROLLBACK,
  ...flags.DRAIN,
  ...flags.TIMEOUT,
  ...flags.BUILD_TIMEOUT,
  showApiKey: option.flag("print a newly generated API key, once"),
  heldJobs: v.optional(
    v.pipe(
      v.picklist(HELD_JOBS),
      v.description(
        "what open jobs may do: stop (they stop the deployment if they do not fit the new code, or if that is not known), unchecked (they do not if it is not known), ok (those that do not fit are held)",
      ),
    ),
    "stop",
  ),
  ...flags.CHECK,
  ...flags.OVERWRITE,
  ...flags.BREAK_LOCK,
  ...flags.YES,
  ...flags.VERBOSE,
  ...flags.JSON_FLAG,
};

/** `svc deploy up`: deploys, checks health, and rolls back what does not become healthy. */
export const upCommand = platformCommand({
  usage: "up",
  summary: "Build, push, release and check the service; roll back a release that does not become healthy",
  flags: UP_FLAGS,
  examples: [
    "svc deploy up --platform cloud-run --generate-api-key --generate-rsa",
    "svc deploy up --platform aws-ecs-express --env prod --yes",
    "svc deploy up --platform do-app-platform --image 1.10 --no-rollback",
  ],
  run: deploy,
  several: inTurn,
});

/** `svc deploy rotate-key`: the same with a new key. */
export const rotateKeyCommand = platformCommand({
  usage: "rotate-key",
  summary: "Deploy with a new key of the service; the present one stays valid beside it",
  flags: {
    ...UP_FLAGS,
    key: v.optional(
      v.pipe(
        v.picklist(ROTATED_KEYS),
        v.description("which one: rsa, which decrypts parameters, or api, which clients send"),
      ),
      "rsa",
    ),
  },
  examples: [
    "svc deploy rotate-key --platform cloud-run",
    "svc deploy rotate-key --platform aws-ecs-express --env prod --key api --yes",
  ],
  several: async (runs, run) => {
    // A former key that one of them still has would be forgotten.
    const all = runs.map(({ deployment }) => deployment);
    await lockAll(all);
    await checkSame(all);
    return inTurn(runs, run);
  },
  run: ({ deployment, ...rest }) => {
    const rotateKey = rest.given.key as RotatedKey;
    return deploy({ ...rest, deployment: { ...deployment, options: { ...deployment.options, rotateKey } } });
  },
});

async function deploy({ shell, deployment: mine, given, first }: PlatformRun): Promise<number> {
  const deployment = first === undefined ? mine : await following(mine, first);
  const consent: Consent = async (plan, { SERVICE_API_KEY: key } = {}) => {
    if (shell.json) return true;
    shell.progress.clear();
    shell.print("");
    for (const line of planTable(plan, whereOf(mine), shell.paint)) shell.print(line);
    shell.print("");
    if (
      !(await shell.ask(`Deploy ${plan.service_name}${mine.place === undefined ? "" : ` to ${mine.place}`}?`))
    )
      return false;
    // Explicitly requested: the only line that is not masked. Once it is stored, a run that fails or is killed has lost it.
    if (key !== undefined && given.showApiKey === true) shell.context.print(`  API key   ${key}`);
    return true;
  };
  const { context } = shell;
  const self = given.check === false ? undefined : context.self;
  const outcome = await up(deployment, consent, checkJobsWith(context, deployment), self);
  return tellResult(shell, { document: toDocument(outcome), ...describe(shell, deployment, outcome) });
}

function toDocument({ result, changed, plan, openWork, continued }: UpOutcome): unknown {
  const base = result.service_url?.replace(/\/$/, "");
  return {
    ...result,
    changed,
    admin_url: base && `${base}/admin/`,
    docs_url: base && `${base}/docs`,
    open_work: openWork ?? null,
    continued_jobs: continued ?? null,
    plan,
  };
}

function describe({ hint }: Shell, deployment: Deployment, outcome: UpOutcome): Omit<Result, "document"> {
  const { release, result, health, image, changed, continued } = outcome;
  const { target } = deployment;
  const base = release.url?.replace(/\/$/, "") ?? "";
  const isSeen = health.status_code === null ? "" : " and healthy";
  // Where others are in front of it, people use their address.
  const { SERVICE_PUBLIC_URL: given = base } = release.env ?? {};
  const told = /^https?:/.test(given) ? given.replace(/\/$/, "") : base;
  const title = changed
    ? `${target.serviceName} is up${isSeen} (${result.deployment_time} s)`
    : `${target.serviceName} is up to date${isSeen}: there was nothing to deploy`;
  const facts = [
    ["URL", base],
    ["Public URL", told === base ? undefined : told],
    ["Admin", `${told}/admin/`],
    ["API docs", `${told}/docs`],
    [
      "Health",
      health.status_code === null
        ? health.error_message
        : `${health.status} (${health.status_code}, ${health.response_time} s)`,
    ],
    ["Revision", release.revision],
    ["Image", image],
    ["API key", hint(apiKeyText(deployment, outcome) ?? "")],
    ["Former key", formerKeyText(deployment.options.rotateKey, release.secretNames ?? [])],
    ["Jobs", continued?.continued ? describeContinued(continued) : undefined],
    ["Next", hint("svc deploy logs")],
  ] as const;
  return { isApart: true, title, facts };
}

/** Where the API key is, if this run has made it or found it; or that the service has made one which nobody has seen. */
function apiKeyText(
  { session, options, platform, config, tools }: Deployment,
  { release, changed, generated, plan }: UpOutcome,
): string | undefined {
  const name = "SERVICE_API_KEY";
  const isStored = release.secretNames?.includes(name) === true;
  if (!isStored && changed && session.readSecret && platform.ephemeralDisk !== true)
    return "the service has made one, on its disk. To store it where it can be read: svc deploy up --generate-api-key";
  const isNew = plan.actions.some((one) => one.resource_name === name && one.action_type === "create");
  const isGiven = Boolean(tools.env[name]) || config.secrets.some((secret) => secret.name === name);
  const isGenerated = Object.keys(generated).includes(name);
  if (!isGenerated && (!isStored || !isNew || isGiven || !changed)) return undefined;
  const made = isGenerated ? "generated" : "the one that the service has made";
  const stored = `${made}, and stored ${session.push ? "on the server" : "by the platform"}`;
  const command = session.secretCommand?.(name);
  if (command !== undefined) return `${stored}; read it with: ${command}`;
  const isShown = options.showApiKey && !session.readSecret;
  return isShown ? `${stored}; shown above: keep it, as nobody can read it there` : stored;
}

/** What becomes of the key that was replaced. */
function formerKeyText(which: RotatedKey | undefined, secretNames: readonly string[]): string | undefined {
  const former = which === undefined ? [] : formerKeys(which, secretNames);
  if (former.length === 0) return undefined;
  return `${former.join(" and ")}: valid until you remove it, with "${former.at(-1)}: { remove: true }" among the secrets of deploy.yaml`;
}
