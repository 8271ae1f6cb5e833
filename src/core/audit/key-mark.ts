import { createHash, randomBytes, scrypt } from "node:crypto";
import { isStrong } from "../base/key-strength.ts";
import type { Ledger } from "../entities/ledger.ts";
import type { KeyMark } from "../models/own-rows.ts";
import type { Store } from "../store/store.ts";
import type { AuditLog } from "./audit-log.ts";
import { SYSTEM } from "./caller.ts";

/** The keys whose changes are recorded, and how. */
const ACTIONS = { "api-key": "key.changed", "rsa-key": "rsa_key.changed" } as const;

/** A key of which a store has a mark. */
export type MarkedKey = keyof typeof ACTIONS;

/** Whether a mark is of this key. */
export async function isKeyOf(mark: KeyMark, key: string): Promise<boolean> {
  return (await hashLike(mark, key)) === mark.hash;
}

/** What people name a mark by: another one for each time that a store gets a key. */
export function nameOfMark({ hash }: KeyMark): string {
  return createHash("sha256").update(hash).digest("hex").slice(0, 12);
}

/** Gives a store that has no mark of an RSA key the marks of these keys; where another instance is faster, its marks stay. */
export async function markFirstKeys(
  ledger: Ledger,
  keys: Readonly<Record<MarkedKey, string>>,
  service: string,
): Promise<void> {
  const marks = [
    await markOf("api-key", keys["api-key"], service),
    await markOf("rsa-key", keys["rsa-key"], service),
  ];
  await ledger.write(async ({ tx }) => {
    if (await tx.get("KeyMark", "rsa-key")) return;
    for (const mark of marks) if (!(await tx.get("KeyMark", mark.id))) await tx.insert("KeyMark", mark);
  });
}

async function markOf(id: MarkedKey, key: string, service: string): Promise<KeyMark> {
  const salt = randomBytes(16).toString("base64url");
  return { id, salt, hash: await hashOf(key, salt), service };
}

/** Records that a key is another one than at the last start, and remembers it for the next; resolves with whether it is. */
export async function noteKeyChange(
  { store, ledger, audit }: { readonly store: Store; readonly ledger: Ledger; readonly audit: AuditLog },
  id: MarkedKey,
  key: string,
  service: string,
): Promise<boolean> {
  const known = await store.table("KeyMark").get(id);
  if (known && (await isKeyOf(known, key))) return false;
  const mark = await markOf(id, key, service);
  await ledger.write(async (unit) => {
    const current = await unit.tx.get("KeyMark", mark.id);
    // Another instance, with the same key, has noted it in the meantime.
    if (current?.hash !== known?.hash) return;
    if (!current) return unit.tx.insert("KeyMark", mark);
    await unit.tx.change("KeyMark", mark.id, () => mark);
    await audit.write(unit, { by: SYSTEM, action: ACTIONS[id], target: { kind: "key", id } });
  });
  return known !== undefined;
}

/** How the hash of a key begins that nobody can guess, so that a fast one hides it. */
const FAST = "sha256:";

/** As the hash that is known was made: earlier versions made a slow one of each key. */
function hashLike({ salt, hash }: KeyMark, apiKey: string): Promise<string> | string {
  return hash.startsWith(FAST) ? fastHashOf(apiKey, salt) : slowHashOf(apiKey, salt);
}

function hashOf(apiKey: string, salt: string): Promise<string> | string {
  return isStrong(apiKey) ? fastHashOf(apiKey, salt) : slowHashOf(apiKey, salt);
}

function fastHashOf(apiKey: string, salt: string): string {
  return FAST + createHash("sha256").update(`${salt}:${apiKey}`).digest("base64url");
}

/** By some 10 ms: a key that somebody chose may be short. */
function slowHashOf(apiKey: string, salt: string): Promise<string> {
  return new Promise((resolve, reject) => {
    scrypt(apiKey, salt, 32, { N: 4096 }, (error, hash) =>
      error ? reject(error) : resolve(hash.toString("base64url")),
    );
  });
}
