import { createPublicKey } from "node:crypto";
import { isKeyOf, type MarkedKey, markFirstKeys, nameOfMark, noteKeyChange } from "../audit/key-mark.ts";
import { OptionsError } from "../base/check-options.ts";
import type { Container } from "../base/container.ts";
import type { KeyMark } from "../models/own-rows.ts";
import { isStorageError } from "../runs/queue/when-writable.ts";
import { LEDGER } from "./inner-tokens.ts";
import type { ResolvedOptions } from "./options.ts";
import { rsaKeysIn } from "./rsa-key.ts";
import { AGENTS, AUDIT, KEYS, LOGGER, OPTIONS, STORE } from "./tokens.ts";

/** Agents that a service is named by. */
const NAMED = 3;

/**
 * Refuses a store that another service has used: its jobs would run with other code, and its clients would see them. A
 * store gets the marks of the keys at its first start. A service is known by its RSA key, or in a store that nobody
 * shares also by its API key: a key can be changed there by a start with the new one.
 */
export async function claimStore(scope: Container): Promise<void> {
  const store = scope.get(STORE);
  const marks = store.table("KeyMark");
  if ((await marks.get("rsa-key")) === undefined) {
    try {
      // Before anything runs: of two services that start here for the first time, one is refused.
      const keys = { "api-key": keyOf(scope, "api-key"), "rsa-key": keyOf(scope, "rsa-key") };
      await markFirstKeys(scope.get(LEDGER), keys, describeService(scope));
    } catch (error) {
      if (!isStorageError(error)) throw error;
      scope.get(LOGGER).warn("whose the store is could not be stored", { error });
    }
  }
  const [rsa, api] = [await marks.get("rsa-key"), await marks.get("api-key")];
  const own = { ...scope.get(KEYS), isShared: store.isShared === true };
  const other = rsa && (await otherOf({ rsa, api }, own));
  if (rsa && other !== undefined) {
    const name = nameOfMark(rsa);
    if (scope.get(OPTIONS).adoptStore !== name) throw refusalOf(rsa, other);
    scope.get(LOGGER).warn("the store of another service is adopted", { mark: name, service: rsa.service });
    // From now on the other one is refused.
    await noteKey(scope, "api-key");
    await noteKey(scope, "rsa-key");
  }
  await showOwner(scope);
}

/**
 * Refuses a store by the marks that it shows without being opened, as that ends the instance which has it. Where a person
 * has decided whose it is, that is compared once it is open.
 */
export async function refuseOther(options: ResolvedOptions, marks: readonly KeyMark[]): Promise<void> {
  const [rsa, api] = (["rsa-key", "api-key"] as const).map((id) => marks.find((mark) => mark.id === id));
  const { apiKey, previousApiKey, rsaPrivateKey, previousRsaPrivateKey, adoptStore } = options;
  if (!rsa || adoptStore !== undefined || rsaPrivateKey === undefined) return;
  const rsaPrivateKeys = [rsaPrivateKey, ...rsaKeysIn(previousRsaPrivateKey)];
  const other = await otherOf({ rsa, api }, { apiKey, previousApiKey, rsaPrivateKeys, isShared: false });
  if (other !== undefined) throw refusalOf(rsa, other);
}

/** Has the store show the marks of its keys to those who have not opened it. */
export async function showOwner(scope: Container): Promise<void> {
  const store = scope.get(STORE);
  if (!store.showMarks) return;
  try {
    const { items } = await store.table("KeyMark").list({ limit: Number.POSITIVE_INFINITY });
    await store.showMarks(items);
  } catch (error) {
    scope.get(LOGGER).warn("whose the store is could not be shown to others", { error });
  }
}

interface Marks {
  readonly rsa: KeyMark;
  readonly api: KeyMark | undefined;
}

interface OwnKeys {
  readonly apiKey: string | undefined;
  readonly previousApiKey?: string | undefined;
  readonly rsaPrivateKeys: readonly string[];
  readonly isShared: boolean;
}

/** Whose a store with these marks is; nothing where it is that of the service with these keys. */
async function otherOf(
  { rsa, api }: Marks,
  { apiKey, previousApiKey, rsaPrivateKeys, isShared }: OwnKeys,
): Promise<string | undefined> {
  if (await isOneOf(rsa, rsaPrivateKeys)) return undefined;
  const isOwn = async (key: string | undefined) =>
    api !== undefined && key !== undefined && (await isKeyOf(api, key));
  const hasApiKey = (await isOwn(apiKey)) || (await isOwn(previousApiKey));
  if (!isShared && hasApiKey) return undefined;
  return hasApiKey ? "this service with another RSA key" : "another service";
}

async function isOneOf(mark: KeyMark, rsaPrivateKeys: readonly string[]): Promise<boolean> {
  for (const pem of rsaPrivateKeys) if (await isKeyOf(mark, publicKeyOf(pem))) return true;
  return false;
}

/** Whether the store knows the service by one of its former RSA keys. */
export async function hasFormerMark(scope: Container): Promise<boolean> {
  const mark = await scope.get(STORE).table("KeyMark").get("rsa-key");
  const [, ...former] = scope.get(KEYS).rsaPrivateKeys;
  return mark !== undefined && isOneOf(mark, former);
}

function refusalOf(mark: KeyMark, whose: string): OptionsError {
  const name = nameOfMark(mark);
  const known = mark.service === undefined ? "" : ` (${mark.service})`;
  return new OptionsError(
    [
      `The store is that of ${whose}${known}, with the mark ${name}: it is not used.`,
      "- If this instance has a wrong key, start it with SERVICE_API_KEY and SERVICE_RSA_PRIVATE_KEY of the others.",
      "- If the URL, bucket or folder is that of another service, use one of its own; in one database, SERVICE_DATABASE_SCHEMA.",
      "- If the RSA key was changed, give the one of before as SERVICE_PREVIOUS_RSA_PRIVATE_KEY.",
      "- If that one is lost, or to use the copy of a store here, stop all services that use this store, and",
      `  set SERVICE_ADOPT_STORE=${name}. Jobs whose parameters this key cannot read are held.`,
    ].join("\n"),
  );
}

/** Notes a key in the store, and whether it is another one than at the last start. */
export function noteKey(scope: Container, id: MarkedKey): Promise<boolean> {
  const parts = { store: scope.get(STORE), ledger: scope.get(LEDGER), audit: scope.get(AUDIT) };
  return noteKeyChange(parts, id, keyOf(scope, id), describeService(scope));
}

function keyOf(scope: Container, id: MarkedKey): string {
  const { apiKey, rsaPrivateKeys } = scope.get(KEYS);
  return id === "api-key" ? apiKey : publicKeyOf(rsaPrivateKeys[0]);
}

/** The public key is the same however the private one is written. */
function publicKeyOf(rsaPrivateKey: string): string {
  return createPublicKey(rsaPrivateKey).export({ type: "spki", format: "pem" }).toString();
}

function describeService(scope: Container): string {
  const names = scope
    .get(AGENTS)
    .list()
    .map(({ definition }) => definition.name);
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : "";
  const workspace = scope.get(OPTIONS).account?.workspace_id;
  const of = workspace === undefined ? "" : `, workspace ${workspace}`;
  return `${names.length === 1 ? "agent" : "agents"} ${names.slice(0, NAMED).join(", ")}${more}${of}`;
}
