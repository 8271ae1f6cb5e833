import { generateKeyPair, randomBytes } from "node:crypto";
import { mkdir, open, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Logger } from "./log.ts";
import type { ResolvedOptions } from "./options.ts";

/** The secrets of a service. */
export interface ServiceKeys {
  readonly apiKey: string;
  /** PEM, PKCS#8. */
  readonly rsaPrivateKey: string;
  /** Whether the API key was made by the service itself. */
  readonly apiKeyGenerated: boolean;
}

/** Takes keys from the options, else from the data folder, else makes them and keeps them there (mode 0600). */
export async function loadKeys(options: ResolvedOptions, log: Logger): Promise<ServiceKeys> {
  const apiKeyFile = join(options.dataDir, "api-key");
  const apiKey =
    options.apiKey ??
    (await readOrMake(
      apiKeyFile,
      async () => randomBytes(32).toString("base64url"),
      (made) =>
        log.warn(
          `No API key is set: ${made ? "a new one was made" : "the generated one is used"}. Read it from the file, or set SERVICE_API_KEY`,
          {
            file: apiKeyFile,
          },
        ),
    ));
  const rsaPrivateKey =
    options.rsaPrivateKey ??
    (await readOrMake(join(options.dataDir, "rsa-private-key.pem"), makeRsaKey, () => {}));
  return { apiKey, rsaPrivateKey, apiKeyGenerated: options.apiKey === undefined };
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
  tell: (made: boolean) => void,
): Promise<string> {
  try {
    const kept = (await readFile(file, "utf8")).trim();
    if (kept !== "") {
      tell(false);
      return kept;
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  const value = (await make()).trim();
  await writePrivately(file, `${value}\n`);
  tell(true);
  return value;
}

/** A crash half-way leaves the old file or none, never part of a key. */
async function writePrivately(file: string, text: string): Promise<void> {
  await mkdir(join(file, ".."), { recursive: true });
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
