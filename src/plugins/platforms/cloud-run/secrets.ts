import { DeployError } from "../../../deploy/errors.ts";
import type { ReleaseSpec, SecretRef, SecretValue, StoredSecret } from "../../../deploy/platform.ts";
import { isCloudError } from "../cloud/cloud-error.ts";
import { isOwn, ownershipOf } from "../cloud/ownership.ts";
import { readProjectNumber } from "./apis.ts";
import type { Context } from "./context.ts";
import { crc32c } from "./crc32c.ts";
import { isNotFound } from "./google-error.ts";
import { ensureGrant } from "./policy.ts";
import type { Service } from "./service-types.ts";

interface Secret {
  readonly name: string;
  readonly etag?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

const HASH = "svc-hash";
const VERSION = "svc-version";
const VARIABLE = "svc-variable";
const LARGEST = 65_536;

/** The secrets of this target, with the keyed hash of each value. */
export async function listSecrets(context: Context): Promise<StoredSecret[]> {
  const secrets = await ownSecrets(context);
  return secrets.flatMap((secret) => {
    const { [HASH]: hash, [VERSION]: version, [VARIABLE]: name } = secret.annotations ?? {};
    if (name === undefined || version === undefined) return [];
    const ref = `projects/${context.project}/secrets/${idOf(secret)}/versions/${version}`;
    return [{ name, ref, ...(hash === undefined ? {} : { hash }) }];
  });
}

/** The value of a secret of this target, or that of one reference to it, if the deploying user may read it. */
export async function readSecret(context: Context, name: string, ref?: string): Promise<string | undefined> {
  const stored = (await listSecrets(context)).find((secret) => secret.name === name);
  return stored && readVersion(context, ref ?? stored.ref);
}

/** The command by which a person reads it. */
export function secretCommand({ target, project }: Context, name: string): string {
  return `gcloud secrets versions access latest --secret ${target.serviceName}-${name} --project ${project}`;
}

const FULL_NAME = /^(?:projects\/([^/]+)\/secrets\/)?([\w-]{1,255})(?:\/versions\/(latest|\d+))?$/;

/** A secret of the project by its name, `projects/p/secrets/name` or `…/versions/3`; without a version, the newest. */
export async function referTo(context: Context, name: string): Promise<string> {
  const [, project = context.project, id, version = "latest"] = FULL_NAME.exec(name) ?? [];
  if (id === undefined || project !== context.project)
    throw new DeployError("bad_config", `"${name}" is not a secret of the project ${context.project}`, {
      outcome: "Nothing was changed",
      fix: "Name one of its secrets in Secret Manager, such as erp-token or erp-token/versions/3",
    });
  const google = await context.google();
  const path = pathOf(context, id);
  if ((await google.find("secretmanager", `/v1/${path}`)) !== undefined) return `${path}/versions/${version}`;
  throw new DeployError("bad_config", `There is no secret "${id}" in the project ${context.project}`, {
    outcome: "Nothing was changed",
    fix: `Create it: gcloud secrets create ${id} --project ${context.project} --data-file=-`,
  });
}

async function readVersion(context: Context, version: string): Promise<string | undefined> {
  try {
    const google = await context.google();
    const found = await google.find<{ payload?: { data?: string } }>(
      "secretmanager",
      `/v1/${version}:access`,
    );
    return found?.payload?.data && Buffer.from(found.payload.data, "base64").toString("utf8");
  } catch (error) {
    // Values may be hidden from this login, and a version may be disabled.
    if (isCloudError(error) && (error.status === 403 || error.status === 400)) return undefined;
    throw error;
  }
}

/** Writes the given values, each as a new version unless it already has that value. */
export async function putSecrets(
  context: Context,
  values: Readonly<Record<string, SecretValue>>,
): Promise<Record<string, SecretRef>> {
  const refs: Record<string, SecretRef> = {};
  for (const [name, value] of Object.entries(values)) refs[name] = await putSecret(context, name, value);
  return refs;
}

/** Deletes secrets of this target; a secret of the same name that is not ours stays. */
export async function dropSecrets(context: Context, names: readonly string[]): Promise<void> {
  const google = await context.google();
  for (const secret of await ownSecrets(context)) {
    const name = secret.annotations?.[VARIABLE];
    if (name === undefined || !names.includes(name)) continue;
    await context.tools.journal({ step: `secret.delete ${name}` }, async () => {
      try {
        await google.send("secretmanager", "DELETE", `/v1/${pathOf(context, idOf(secret))}`, {
          idempotent: true,
        });
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
    });
  }
}

/** Lets the account that revisions will run as read existing secrets. */
export async function letRead(context: Context, secrets: ReleaseSpec["secrets"]): Promise<void> {
  for (const [name, secret] of Object.entries(secrets))
    if (secret) await grantAccess(context, parseSecretRef(secret.ref).id, name);
}

/** Those that this target did not store. */
export function ofOthers({ target }: Context, secrets: ReleaseSpec["secrets"]): ReleaseSpec["secrets"] {
  const isOther = ([name, secret]: [string, SecretRef | undefined]) =>
    secret !== undefined && parseSecretRef(secret.ref).id !== `${target.serviceName}-${name}`;
  return Object.fromEntries(Object.entries(secrets).filter(isOther));
}

/** The account that revisions run as: the requested one, else the service's current one. */
export async function runtimeAccount(context: Context): Promise<string | undefined> {
  if (context.target.flags.serviceAccount) return context.target.flags.serviceAccount;
  const google = await context.google();
  const service = await google.find<Service>("run", `/v2/${context.service}`);
  if (service?.template?.serviceAccount) return service.template.serviceAccount;
  const number = await readProjectNumber(context);
  return number === undefined ? undefined : `${number}-compute@developer.gserviceaccount.com`;
}

async function putSecret(context: Context, name: string, { value, hash }: SecretValue): Promise<SecretRef> {
  const id = `${context.target.serviceName}-${name}`;
  if (Buffer.byteLength(value) > LARGEST)
    throw new DeployError("bad_config", `The secret ${name} is larger than Secret Manager allows`, {
      detail: `${Buffer.byteLength(value)} bytes; the limit is ${LARGEST}`,
    });
  context.tools.redact(value);
  const secret = await ensureSecret(context, id, name);
  await grantAccess(context, id, name);
  const held = secret.annotations?.[HASH] === hash ? secret.annotations[VERSION] : undefined;
  const version =
    held ??
    (await adoptVersion(context, secret, name, { value, hash })) ??
    (await addVersion(context, id, name, value, hash));
  if (held === undefined) await annotate(context, secret, name, version, hash);
  return { name, ref: `${pathOf(context, id)}/versions/${version}` };
}

async function ensureSecret(context: Context, id: string, name: string): Promise<Secret> {
  const google = await context.google();
  const find = () => google.find<Secret>("secretmanager", `/v1/${pathOf(context, id)}`);
  const found = await find();
  if (found !== undefined) {
    if (!isOwn(found.labels, context.target))
      throw new DeployError("failed", `A secret "${id}" already exists and does not belong to this target`, {
        outcome: "It was not changed",
        fix: "Choose another service name with --name, or remove that secret yourself",
      });
    return found;
  }
  return context.tools.journal({ step: `secret.create ${name}` }, () =>
    google.send<Secret>("secretmanager", "POST", `/v1/projects/${context.project}/secrets`, {
      query: { secretId: id },
      body: {
        replication: { automatic: {} },
        labels: ownershipOf(context.target),
        annotations: { [VARIABLE]: name },
      },
      reread: find,
    }),
  );
}

async function grantAccess(context: Context, id: string, name: string): Promise<void> {
  const account = await runtimeAccount(context);
  if (account === undefined) return;
  await ensureGrant(context, {
    api: "secretmanager",
    resource: `/v1/${pathOf(context, id)}`,
    role: "roles/secretmanager.secretAccessor",
    member: `serviceAccount:${account}`,
    step: `secret.grant ${name}`,
  });
}

/** The version that a killed run added for exactly this value, here or elsewhere, before it could record its number. */
async function adoptVersion(
  context: Context,
  secret: Secret,
  name: string,
  { value, hash }: SecretValue,
): Promise<string | undefined> {
  const newest = await newestVersion(context, idOf(secret));
  if (newest <= Number(secret.annotations?.[VERSION] ?? 0)) return undefined;
  if (context.tools.recall(`secret.version ${name}`)?.hash === hash) return String(newest);
  const stored = await readVersion(context, `${pathOf(context, idOf(secret))}/versions/${newest}`);
  return stored === value ? String(newest) : undefined;
}

async function addVersion(
  context: Context,
  id: string,
  name: string,
  value: string,
  hash: string,
): Promise<string> {
  const google = await context.google();
  const data = Buffer.from(value, "utf8");
  const before = await newestVersion(context, id);
  const versionNumber = (version: { name: string }) => version.name.split("/").at(-1) ?? "";
  return context.tools.journal({ step: `secret.version ${name}`, data: { hash } }, async (note) => {
    const added = await google.send<{ name: string }>(
      "secretmanager",
      "POST",
      `/v1/${pathOf(context, id)}:addVersion`,
      {
        body: { payload: { data: data.toString("base64"), dataCrc32c: String(crc32c(data)) } },
        reread: async () => {
          const now = await newestVersion(context, id);
          return now > before ? { name: String(now) } : undefined;
        },
      },
    );
    await note({ version: versionNumber(added) });
    return versionNumber(added);
  });
}

async function newestVersion(context: Context, id: string): Promise<number> {
  const google = await context.google();
  const found = await google.find<{ name: string }>(
    "secretmanager",
    `/v1/${pathOf(context, id)}/versions/latest`,
  );
  return Number(found?.name.split("/").at(-1) ?? 0);
}

async function annotate(
  context: Context,
  secret: Secret,
  name: string,
  version: string,
  hash: string,
): Promise<void> {
  const google = await context.google();
  const annotations = { ...secret.annotations, [VARIABLE]: name, [VERSION]: version, [HASH]: hash };
  await context.tools.journal({ step: `secret.annotate ${name}`, data: { version } }, () =>
    google.send("secretmanager", "PATCH", `/v1/${pathOf(context, idOf(secret))}`, {
      query: { updateMask: "annotations" },
      body: { annotations },
      idempotent: true,
    }),
  );
}

async function ownSecrets(context: Context): Promise<Secret[]> {
  const google = await context.google();
  const filter = Object.entries(ownershipOf(context.target))
    .map(([key, value]) => `labels.${key}=${value}`)
    .join(" AND ");
  const all: Secret[] = [];
  const path = `/v1/projects/${context.project}/secrets`;
  const query = { filter, pageSize: 250 };
  for await (const page of google.pages<{ secrets?: Secret[] }>("secretmanager", path, query, true))
    all.push(...(page.secrets ?? []));
  return all.filter((secret) => isOwn(secret.labels, context.target));
}

function idOf(secret: Secret): string {
  return secret.name.split("/").at(-1) ?? secret.name;
}

function pathOf(context: Context, id: string): string {
  return `projects/${context.project}/secrets/${id}`;
}

/** A secret's version as kept in state and plans: `projects/p/secrets/id/versions/7`. */
export function parseSecretRef(ref: string): { readonly id: string; readonly version: string } {
  const parts = ref.split("/");
  return { id: parts[3] ?? ref, version: parts[5] ?? "latest" };
}
