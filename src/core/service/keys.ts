import { generateKeyPair, randomBytes } from "node:crypto";
import { mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { OptionsError } from "../base/check-options.ts";
import type { Logger } from "../base/log.ts";
import { describeWeakKeys } from "./key-strength.ts";
import type { ResolvedOptions } from "./options.ts";
import { isRsaPrivateKey } from "./rsa-key.ts";

/** The secrets of a service. */
export interface ServiceKeys {
  readonly apiKey: string;
  /** Works beside it, until clients have the new one. */
  readonly previousApiKey?: string | undefined;
  /** PEM, PKCS#8. */
  readonly rsaPrivateKey: string;
  /** Whether the API key was made by the service itself. */
  readonly apiKeyGenerated: boolean;
}

/** Takes keys from the options, else from the data folder, else makes them and keeps them there (mode 0600). */
export async function loadKeys(options: ResolvedOptions, log: Logger): Promise<ServiceKeys> {
  const { dataDir, previousApiKey } = options;
  for (const weak of describeWeakKeys(options)) log.warn(weak);
  return {
    apiKey: options.apiKey ?? (await readApiKey(join(dataDir, "api-key"), log)),
    previousApiKey,
    rsaPrivateKey: options.rsaPrivateKey ?? (await readRsaKey(join(dataDir, "rsa-private-key.pem"))),
    apiKeyGenerated: options.apiKey === undefined,
  };
}

async function readApiKey(file: string, log: Logger): Promise<string> {
  const { value, made } = await readOrMake(file, async () => randomBytes(32).toString("base64url"));
  const which = made ? "a new one was made" : "the generated one is used";
  log.warn(`No API key is set: ${which}. Read it from the file, or set SERVICE_API_KEY`, { file });
  return value;
}

async function readRsaKey(file: string): Promise<string> {
  const { value } = await readOrMake(file, makeRsaKey);
  if (isRsaPrivateKey(value)) return value;
  throw new OptionsError(
    `${file} does not hold an RSA private key in PEM: put back the file as it was. Without it, parameters that were encrypted for this service cannot be read; if there are none, remove the file and a new key is made`,
  );
}

async function makeRsaKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  return privateKey;
}

async function readOrMake(
  file: string,
  make: () => Promise<string>,
): Promise<{ readonly value: string; readonly made: boolean }> {
  const kept = await readKept(file);
  if (kept !== "") return { value: kept, made: false };
  const value = (await make()).trim();
  await writePrivately(file, `${value}\n`);
  return { value, made: true };
}

async function readKept(file: string): Promise<string> {
  try {
    return (await readFile(file, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}

/** A crash half-way leaves the old file or none, never part of a key. */
async function writePrivately(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  const temporary = `${file}.${process.pid}.tmp`;
  const handle = await open(temporary, "w", 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
}
