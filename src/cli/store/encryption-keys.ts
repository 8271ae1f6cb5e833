import { areEncryptionKeys, ENCRYPTION_RULE, Keyring } from "../../core/store/encryption/keyring.ts";
import type { CliContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { readVariable } from "./data-folder.ts";

const VARIABLE = "SERVICE_ENCRYPTION_KEYS";

/** The keys that the data of this environment is encrypted with; none where the variable is not set. */
export function encryptionKeysOf(context: Pick<CliContext, "env">): Keyring {
  const texts = readVariable(VARIABLE, context)
    ?.split(",")
    .map((text) => text.trim());
  if (texts === undefined) return new Keyring();
  // Its value is in no message.
  if (!areEncryptionKeys(texts)) throw new UsageError(`The variable ${VARIABLE} ${ENCRYPTION_RULE}`);
  return new Keyring(texts);
}
