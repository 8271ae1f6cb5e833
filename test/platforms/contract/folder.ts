import { existsSync, readFileSync } from "node:fs";

/** Machine-readable models of the cloud APIs, beside the project where this machine has them. */
const FOLDER = new URL("../../../../shared/contracts/", import.meta.url);

export const hasContracts = existsSync(FOLDER);

export function readContract<T>(path: string): T | undefined {
  if (!hasContracts) return undefined;
  return JSON.parse(readFileSync(new URL(path, FOLDER), "utf8")) as T;
}
