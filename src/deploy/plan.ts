import type { DeploymentPlan, DeploymentState, ResourceAction } from "../core/models/deployment.ts";
import { type PackedContext, packContext } from "./build-context.ts";
import { CONTEXT, DATABASE_URL, EXPIRES, MARKS, STORAGE_URL, STORE } from "./config.ts";
import { checkContext, sizeOf } from "./context-findings.ts";
import type { Deployment } from "./deployment.ts";
import { DEFAULT_ARCHITECTURE } from "./docker.ts";
import { DeployError } from "./errors.ts";
import { step, warn } from "./events.ts";
import { wantedExpiry } from "./expiry.ts";
import { refuseForeignImage } from "./given-image.ts";
import { imageFiles } from "./image-files.ts";
import { resolveImageTag } from "./image-tag.ts";
import {
  databaseFindings,
  type JobPlace,
  type JobStore,
  keyFindings,
  placeFindings,
  settleInstances,
} from "./job-store.ts";
import { type EffectiveConfig, effectiveConfig, tellKept } from "./kept.ts";
import { liveWork } from "./live-work.ts";
import type { OpenWork } from "./open-work.ts";
import type { DeployOptions } from "./options.ts";
import type { Estimate, Finding, Release, ReleaseSpec, SecretRef } from "./platform.ts";
import { costText } from "./prices.ts";
import { type Project, readProject } from "./project.ts";
import { checkReleaseCommand, releaseCommandActions } from "./release-command.ts";
import { isMadeFrom } from "./release-mark.ts";
import { rotatedKeys } from "./rotate-key.ts";
import { isKeyOfJobs, planSecrets, type SecretPlan } from "./secrets.ts";
import { detailsOf } from "./state.ts";
import { bucketCost, storageFindings } from "./storage.ts";
import { leftBehind } from "./store-change.ts";
import { renderTemplates } from "./templates.ts";

/** What a deployment finds out before it changes anything. */
export interface Prepared {
  readonly project: Project;
  readonly files: Readonly<Record<string, string>>;
  readonly context: PackedContext;
  readonly imageTag: string;
  readonly live: Release | undefined;
  readonly state: DeploymentState | undefined;
  readonly secrets: SecretPlan;
  readonly spec: ReleaseSpec;
  /** Whether the running service was built from exactly these files. */
  readonly imageCurrent: boolean;
  /** What the image is made from, as the mark of a release has it. */
  readonly source: string;
  readonly plan: DeploymentPlan;
  readonly findings: readonly Finding[];
  readonly drift: readonly string[];
  /** Whether there is anything to do. */
  readonly changes: boolean;
  /** Whether an earlier run of this checkout did not finish: what it began is completed even without changes. */
  readonly resumed: boolean;
  /** Open jobs that could be lost if the service is replaced and its files are not persistent. */
  readonly openWork: OpenWork | undefined;
  /** Where the new release stores its jobs. */
  readonly place: JobPlace;
}

export const HEALTH_PATH = "/.well-known/health";

interface PrepareOptions {
  readonly readOnly?: boolean;
}

/**
 * Checks, inspects and plans; writes nothing, locally or remotely. With `readOnly`, rights and values
 * that only a deployment needs may be missing.
 */
export async function prepare(
  deployment: Deployment,
  { readOnly = false }: PrepareOptions = {},
): Promise<Prepared> {
  const { emit } = deployment;
  checkReleaseCommand(deployment);
  const findings = [...(await checkRights(deployment, readOnly))];
  const inspected = await inspect(deployment);
  const { live, stored, drift } = inspected;
  for (const message of drift) warn(emit, message);
  const config = await effectiveConfig(deployment, live, stored);
  findings.push(
    ...judge(deployment, [
      ...placeFindings(deployment, config.store),
      ...diskFindings(deployment, config.store),
      ...leftBehind(config, live),
    ]),
  );
  settleInstances(deployment, config, live);
  return step(emit, "plan", async ({ note }) => {
    const configured = await configure(deployment, config, { ...inspected, readOnly });
    const image = await planImage(deployment, configured, inspected);
    findings.push(...configured.findings, ...image.findings);
    const planned = await planActions(deployment, { ...inspected, ...configured, ...image, config });
    note(planned.changes ? summary(planned.plan.actions) : "no changes");
    return {
      ...inspected,
      ...configured,
      ...image,
      ...planned,
      findings,
      place: { store: config.store, storage: config.storage },
    };
  });
}

/** A key that the service has made on its disk. Where it was removed and its disk stays, its store still wants the RSA key. */
async function ownKey({ session }: Deployment, live: Release | undefined, name: string) {
  if (live === undefined && !isKeyOfJobs(name)) return undefined;
  return session.readSecret?.(name);
}

/** Whether the login may do what a deployment does. */
function checkRights(deployment: Deployment, readOnly: boolean): Promise<readonly Finding[]> {
  return step(deployment.emit, "preflight", async ({ note }) => {
    const checked = await deployment.session.preflight();
    const found = judge(deployment, readOnly ? checked.map(asReader) : checked);
    const good = found.filter((one) => one.level === "ok");
    note([...new Set(good.map(({ subject, message }) => `${subject}: ${message}`))].join(", "));
    return found;
  });
}

type Inspected = Awaited<ReturnType<typeof inspect>>;

/** What runs, and what this checkout knows of it. */
function inspect({ emit, session, state: file }: Deployment) {
  return step(emit, "inspect", async ({ note }) => {
    const state = await file.read();
    const live = await session.inspect();
    const stored = (await session.listSecrets()).filter((secret) => !secret.unfinished);
    note(
      live === undefined ? "nothing yet" : [live.status, live.revision].filter(Boolean).join(", revision "),
    );
    return { live, state, stored, drift: driftOf(state, live) };
  });
}

type Configured = Awaited<ReturnType<typeof configure>>;

/** What the service receives: its port, variables and secrets. */
async function configure(
  deployment: Deployment,
  config: EffectiveConfig,
  { live, state, stored, readOnly }: Inspected & Required<PrepareOptions>,
) {
  const { session, tools, target, options, platform } = deployment;
  const port = options.port ?? portOf(live) ?? target.port;
  const referred = await referredSecrets(deployment, config);
  const lastHashes = { ...detailsOf(state).secret_hashes, ...rememberedHashes(deployment) };
  const secrets = await planSecrets({
    config,
    keep: config.keptSecrets,
    hasDatabase: config.store === "database",
    ...{ tools, cwd: target.cwd },
    target: `${platform.name}/${target.serviceName}`,
    stored,
    live,
    referred,
    lastHashes,
    rotated: readOnly ? {} : await rotatedKeys(deployment, { stored, live, lastHashes }),
    generateApiKey: options.generateApiKey,
    generateRsa: options.generateRsa,
    makeDatabaseUrl: config.makeDatabaseUrl,
    readOwnKey: platform.ephemeralDisk ? undefined : (name) => ownKey(deployment, live, name),
    readOnly,
  });
  const project = await readProject(target.cwd, options);
  const findings: Finding[] = [];
  if (config.store === "database") findings.push(...judge(deployment, databaseFindings(secrets, project)));
  const env = await variables(deployment, config, port, live);
  if (config.storage !== undefined) {
    const use = { platform, session, secretNames: secretNames(secrets), env };
    const found = [...keyFindings(secrets, config.store), ...storageFindings(config.storage, use)];
    findings.push(...judge(deployment, found));
  }
  tellKept(deployment, { config, env, live });
  return { port, secrets, project, env, findings };
}

type PlannedImage = Awaited<ReturnType<typeof planImage>>;

/** What the image is made from, and whether it runs already. */
async function planImage(
  deployment: Deployment,
  { project, port, env, secrets }: Configured,
  { live, state }: Inspected,
) {
  const { session, tools, target, options, emit } = deployment;
  const { cwd, name, serviceName } = target;
  const render = (imageTag: string) =>
    renderTemplates({
      project,
      name,
      serviceName,
      port,
      localImage: `${serviceName}:local-test`,
      imageTag,
      env,
      secretNames: secretNames(secrets),
      baseImage: options.baseImage,
      apt: options.apt,
    });
  const context = await packContext(project, await imageFiles(cwd, await render("latest"), deployment));
  const findings = checkContext(context, emit);
  const imageTag = await resolveImageTag(tools, { typed: options.image, cwd, contentHash: context.hash });
  const { imageRef } = options;
  if (imageRef !== undefined) refuseForeignImage(deployment, imageRef);
  const architecture = await session.architecture?.();
  const source = imageRef === undefined ? builtFrom(context.hash, architecture) : GIVEN;
  const mark = live?.env?.[CONTEXT];
  const details = detailsOf(state);
  const isBuiltFrom = (image: string) =>
    mark === undefined
      ? details.image === image && details.context_hash === source
      : mark === contextMark(source, image);
  const imageCurrent =
    live?.image !== undefined && (imageRef === undefined ? isBuiltFrom(live.image) : imageRef === live.image);
  const files = await render(imageTag);
  return { context, findings, imageTag, architecture, source, mark, imageCurrent, files };
}

/** What a release would change, and whether that could lose open jobs. */
async function planActions(
  deployment: Deployment,
  given: Inspected & Configured & PlannedImage & { readonly config: EffectiveConfig },
): Promise<Pick<Prepared, "spec" | "plan" | "changes" | "resumed" | "openWork">> {
  const { session, target, options, platform } = deployment;
  const { live, stored, config, port, secrets, env, context, imageTag, mark, imageCurrent } = given;
  const spec: ReleaseSpec = {
    image: imageCurrent ? (live?.image ?? "") : (options.imageRef ?? session.imageRef(imageTag)),
    imageTag,
    port,
    env: imageCurrent ? { ...(mark === undefined ? {} : { [CONTEXT]: mark }), ...env } : env,
    secrets: plannedSecrets(secrets, stored),
    secretHashes: Object.fromEntries(Object.entries(secrets.values).map(([key, { hash }]) => [key, hash])),
    publicUrl: env.SERVICE_PUBLIC_URL,
    healthPath: HEALTH_PATH,
  };
  const rest = `${sizeOf(context)} and ${session.push ? "send" : "push"}`;
  const actions = [
    ...imageActions(spec, imageCurrent, options, rest, given.architecture),
    ...secretActions(secrets, stored, config.makeDatabaseUrl !== undefined),
    ...(await session.plan(spec, live)),
  ];
  const estimate = await session.estimate?.(spec, live);
  const changes = actions.some((action) => action.action_type !== "noop");
  if (changes) actions.push(...releaseCommandActions(deployment));
  const resumed = deployment.journal.unfinished.length > 0;
  const replaces = changes || (resumed && !isMadeFrom(live, spec));
  const openWork = replaces ? await liveWork(deployment, live, config) : undefined;
  const plan = {
    platform: platform.name,
    service_name: target.serviceName,
    environment: target.environment,
    region: target.region,
    project_id: target.projectId ?? null,
    actions,
    total_cost_estimate: costOf(estimate?.cost, config.storage),
    estimated_duration: estimate?.duration ?? null,
    current_image: live?.image ?? null,
    current_url: live?.url ?? null,
    current_status: live?.status ?? null,
    target_image: spec.image,
    target_port: port,
    target_env_vars: { ...spec.env },
    target_secrets: Object.fromEntries(secretNames(secrets).map((key) => [key, "***"])),
  };
  return { spec, plan, changes, resumed, openWork };
}

function costOf(service: Estimate["cost"], storage: string | undefined): string | null {
  const costs = [service, storage === undefined ? undefined : bucketCost(storage)];
  return costs.flatMap((cost) => (cost === undefined ? [] : [costText(cost)])).join("; ") || null;
}

/** In place of files, of an image that svc did not build. */
const GIVEN = "given";

/** Whether the mark of a release is that of an image that svc did not build, or missing. */
export function isGiven(mark: string | undefined): boolean {
  return mark === undefined || mark.startsWith(`${GIVEN}-`);
}

/** The files, and the processor where it is not the usual one: the same files make another image for another one. */
function builtFrom(hash: string, architecture = DEFAULT_ARCHITECTURE): string {
  return architecture === DEFAULT_ARCHITECTURE ? hash : `${architecture}-${hash}`;
}

/** Names the files and the image that was built from them: an image that was put there by other means has another mark. */
export function contextMark(source: string, image: string): string {
  return `${source.slice(0, 24)}-${(image.split("@")[1] ?? image).replace("sha256:", "").slice(0, 12)}`;
}

/** A right that is missing, for a login that only reads. */
function asReader(finding: Finding): Finding {
  const isRight = finding.subject === "permission" || finding.subject === "service account";
  return isRight && finding.level === "error" ? { ...finding, level: "warning" } : finding;
}

/** Reports findings before a deployment, and rejects if one of them prevents it. */
function judge({ emit }: Deployment, findings: readonly Finding[]): readonly Finding[] {
  for (const { level, subject, message, fix } of findings) {
    if (level === "warning")
      emit({ type: "notice", level, message: `${subject}: ${message}`, ...(fix ? { fix } : {}) });
  }
  const errors = findings.filter((finding) => finding.level === "error");
  const [first] = errors;
  if (first === undefined) return findings;
  throw new DeployError("preflight", `${first.subject}: ${first.message}`, {
    ...(errors.length > 1
      ? {
          detail: errors
            .slice(1)
            .map((one) => `${one.subject}: ${one.message}${one.fix ? ` (${one.fix})` : ""}`)
            .join("\n"),
        }
      : {}),
    outcome: "Nothing was changed",
    fix: first.fix,
  });
}

/** What will be lost on a platform without a persistent disk. */
export function diskFindings({ platform, target, options, config }: Deployment, store: JobStore): Finding[] {
  if (!platform.ephemeralDisk || store !== "file") return [];
  const lost = "jobs, cases and a key that the service generated for itself are lost";
  const fix = `Store them in a bucket (--storage) or in Postgres (the secret ${DATABASE_URL}); docs/deploy.md shows how`;
  const message = `${platform.name} wipes the service's files: at each deployment, restart and scale-down ${lost}`;
  const isAccepted = options.acceptEphemeralDisk === true || config.store === "file";
  if (target.environment === "prod" && !isAccepted) {
    const other = options.acceptDataLoss
      ? "; --accept-data-loss accepts only the loss of jobs that are open now, and is not needed where there are none"
      : "";
    return [
      {
        level: "error",
        subject: "Disk",
        message,
        fix: `${fix}. Or deploy anyway: "store: file" in deploy.yaml, or --accept-ephemeral-disk${other}`,
      },
    ];
  }
  return [{ level: "warning", subject: "Disk", message, fix }];
}

/** Differences between the state file and the actual state. */
export function driftOf(state: DeploymentState | undefined, live: Release | undefined): string[] {
  if (state === undefined) return [];
  const name = state.service_name;
  const { release } = detailsOf(state);
  if (live === undefined)
    return [
      release === undefined
        ? `The last deployment of "${name}" from here failed, and there was none before`
        : `"${name}" was deployed from here and no longer exists: it was removed outside svc and will be recreated`,
    ];
  const drift: string[] = [];
  if (state.status === "failed" || state.status === "deploying") return drift;
  if (release?.image !== undefined && live.image !== undefined && release.image !== live.image)
    drift.push(`"${name}" runs a different image than was deployed from here: ${live.image}`);
  else if (
    release?.revision !== undefined &&
    live.revision !== undefined &&
    release.revision !== live.revision
  )
    drift.push(`"${name}" runs revision ${live.revision}; deployed from here was ${release.revision}`);
  const names = new Set([...Object.keys(release?.env ?? {}), ...Object.keys(live.env ?? {})]);
  const changed = [...names].filter(
    (key) => !MARKS.includes(key) && release?.env !== undefined && release.env[key] !== live.env?.[key],
  );
  if (changed.length > 0)
    drift.push(`Variables of "${name}" were changed outside svc: ${changed.sort().join(", ")}`);
  return drift;
}

/** Plain variables of the service. */
async function variables(
  { target, options, platform, session, tools }: Deployment,
  { environment, store, storage }: EffectiveConfig,
  port: number,
  live: Release | undefined,
): Promise<Record<string, string>> {
  const url =
    options.publicUrl ??
    environment.SERVICE_PUBLIC_URL ??
    ownAddress(live) ??
    (await session.predictUrl?.(live)) ??
    live?.url;
  const expires = wantedExpiry(options.expires, live, tools.now());
  return {
    ...(platform.proxies !== undefined && { SERVICE_TRUST_PROXY: String(platform.proxies) }),
    ...environment,
    SERVICE_HOST: "0.0.0.0",
    SERVICE_PORT: String(port),
    SERVICE_ENVIRONMENT: target.environment,
    ...(store === "external" ? { [STORE]: store } : {}),
    ...(storage === undefined ? {} : { [STORAGE_URL]: storage }),
    ...(url === undefined ? {} : { SERVICE_PUBLIC_URL: url }),
    ...(expires === undefined ? {} : { [EXPIRES]: expires }),
  };
}

/** The public URL of the running service, if it is not the platform's own. */
function ownAddress(live: Release | undefined): string | undefined {
  const told = live?.env?.SERVICE_PUBLIC_URL;
  const own = live?.url?.replace(/\/$/, "");
  return told === undefined || told.replace(/\/$/, "") === own ? undefined : told;
}

function portOf(live: Release | undefined): number | undefined {
  const port = Number(live?.env?.SERVICE_PORT);
  return Number.isInteger(port) && port > 0 ? port : undefined;
}

/** Hashes of secrets that an unfinished run has stored. */
function rememberedHashes({ journal }: Deployment): Record<string, string> {
  const hashes: Record<string, string> = {};
  for (const { step: id, phase, data } of journal.unfinished) {
    if (id.startsWith("secret ") && phase === "end" && typeof data.hash === "string")
      hashes[id.slice("secret ".length)] = data.hash;
  }
  return hashes;
}

function secretNames(secrets: SecretPlan): string[] {
  const kept = secrets.kept.map((secret) => secret.name);
  const referred = secrets.referred.map((secret) => secret.name);
  return [...Object.keys(secrets.values), ...kept, ...secrets.unlisted, ...referred].sort();
}

/** The secrets of the vault that the configuration refers to; rejects where the platform cannot give them to the service. */
async function referredSecrets(
  { session, platform }: Deployment,
  { secrets }: EffectiveConfig,
): Promise<SecretRef[]> {
  const found: SecretRef[] = [];
  for (const { name, ref } of secrets) {
    if (ref === undefined) continue;
    if (!session.referTo)
      throw new DeployError("bad_config", `Secret ${name}: ${platform.name} has no vault to refer to`, {
        outcome: "Nothing was changed",
        fix: `Give its value: ${name}: { env: ${name} }`,
      });
    found.push({ name, ref: await session.referTo(ref) });
  }
  return found;
}

function plannedSecrets(
  secrets: SecretPlan,
  stored: readonly SecretRef[],
): Record<string, SecretRef | undefined> {
  const refs: Record<string, SecretRef | undefined> = {};
  for (const name of secretNames(secrets)) {
    const referred = secrets.referred.find((secret) => secret.name === name);
    const there = referred ?? stored.find((secret) => secret.name === name);
    refs[name] = there === undefined || secrets.changed.includes(name) ? undefined : { name, ref: there.ref };
  }
  return refs;
}

function imageActions(
  spec: ReleaseSpec,
  current: boolean,
  { image: typed, imageRef }: DeployOptions,
  rest: string,
  architecture = DEFAULT_ARCHITECTURE,
): ResourceAction[] {
  return [
    {
      resource_type: "image",
      action_type: current ? "noop" : "create",
      resource_name: spec.image,
      description: current
        ? imageRef === undefined
          ? "already running, built from these files"
          : "already running"
        : imageRef !== undefined
          ? "released as it is"
          : `build for linux/${architecture} from ${rest}${typed === undefined ? "" : " under the tag you gave"}`,
      cost_estimate: null,
      metadata: null,
    },
  ];
}

function secretActions(
  secrets: SecretPlan,
  stored: readonly SecretRef[],
  makesUrl: boolean,
): ResourceAction[] {
  const { changed, unreleased, adopted, referred } = secrets;
  // Nobody needs to know the URL of the database beside the service, so it is not among the keys that are shown.
  const generated = [
    ...secrets.generated,
    ...(makesUrl && changed.includes(DATABASE_URL) ? [DATABASE_URL] : []),
  ];
  return secretNames(secrets).map((name) => {
    const ref = referred.find((secret) => secret.name === name)?.ref;
    const there = ref !== undefined || stored.some((secret) => secret.name === name);
    const isNew = changed.includes(name);
    const isChanged = isNew || unreleased.includes(name);
    const state = isChanged ? "changed" : "unchanged";
    return {
      resource_type: "secret" as const,
      action_type: !isChanged ? ("noop" as const) : there ? ("update" as const) : ("create" as const),
      resource_name: name,
      description: ref
        ? `is ${ref}`
        : generated.includes(name)
          ? "generated for this deployment"
          : adopted.includes(name)
            ? "the key that the service has made for itself"
            : isNew
              ? "new value"
              : isChanged
                ? "stored, and not released yet"
                : "unchanged",
      cost_estimate: null,
      metadata: { changes: isChanged ? [{ field: name, from: there ? "set" : null, to: state }] : [] },
    };
  });
}

function summary(actions: readonly ResourceAction[]): string {
  const count = (type: string) => actions.filter((action) => action.action_type === type).length;
  return (["create", "update", "delete"] as const)
    .filter((type) => count(type) > 0)
    .map((type) => `${count(type)} to ${type}`)
    .join(", ");
}
