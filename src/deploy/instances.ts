import { DeployError } from "./errors.ts";
import { parseFlags, toFlagName } from "./flags.ts";
import type { PlatformFlags } from "./platform.ts";

type Given = Readonly<Record<string, unknown>>;

/**
 * A platform's options with their defaults. Containers do not share files: with the file store a service has
 * at most one instance, even if the platform would start more by default.
 */
export function holdToStore(
  schema: PlatformFlags,
  given: Given,
  { store, known }: { readonly store: "file" | "external"; readonly known: boolean },
): Record<string, unknown> {
  const flags = parseFlags(schema, given);
  if (store === "external" || schema.entries.maxInstances === undefined) return flags;
  if (known) checkInstances(given);
  return { ...flags, maxInstances: given.maxInstances ?? 1 };
}

/** Rejects more than one instance of a service that stores its jobs in files. */
export function checkInstances(given: Given): void {
  for (const key of ["minInstances", "maxInstances"]) {
    if (given[key] !== undefined && Number(given[key]) > 1)
      throw new DeployError(
        "usage",
        `--${toFlagName(key)} ${String(given[key])}: this service can have at most one instance`,
        {
          detail:
            "It stores jobs and cases in files; two instances would each have their own and lose each other's",
          fix: 'Remove the option, or set "store: external" in .deployment/config.yaml once your controller stores them elsewhere',
        },
      );
  }
}
