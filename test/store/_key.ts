import { randomBytes } from "node:crypto";

/** A new key, as `openssl rand -base64 32` prints it. */
export const newKey = (): string => randomBytes(32).toString("base64");
