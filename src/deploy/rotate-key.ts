import { isNumberedKey, nextKeyName, rsaKeyNames } from "../core/base/numbered-keys.ts";
import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import { inform, warn } from "./events.ts";
import { notDeployed } from "./not-deployed.ts";
import type { Release, StoredSecret } from "./platform.ts";
import { unreleasedSecrets } from "./release-mark.ts";
import { hashSecret } from "./secret-hash.ts";
import { newApiKey, newRsaKey } from "./secrets.ts";

/** Keys that `svc deploy rotate-key` replaces: the secret of each, that of the former ones, and how many these may be. */
const KEYS = {
  rsa: {
    name: "SERVICE_RSA_PRIVATE_KEY",
    previous: "SERVICE_PREVIOUS_RSA_PRIVATE_KEY",
    // As variables give it, in which nobody ends a line.
    make: () => newRsaKey().trim(),
    most: 10,
  },
  api: { name: "SERVICE_API_KEY", previous: "SERVICE_PREVIOUS_API_KEY", make: newApiKey, most: 1 },
} as const;

/** The keys that can be replaced, by the word of the command line. */
export const ROTATED_KEYS = Object.keys(KEYS) as RotatedKey[];
export type RotatedKey = keyof typeof KEYS;

interface Given {
  readonly stored: readonly StoredSecret[];
  readonly live: Release | undefined;
  /** Hashes of the last deployment, for platforms that store none. */
  readonly lastHashes: Readonly<Record<string, string>>;
}

/**
 * A new key, and the former ones beside it, for a run that replaces one. The former ones are stored first: a run that is
 * killed between them has lost nothing, and the next one stores the key that is missing. One that was killed later is
 * continued with the key that it has stored.
 */
export async function rotatedKeys(
  deployment: Pick<Deployment, "options" | "config" | "session" | "tools" | "platform" | "target" | "emit">,
  { stored, live, lastHashes }: Given,
): Promise<Readonly<Record<string, string>>> {
  const { options, config, session, tools, platform, target, emit } = deployment;
  if (options.rotateKey === undefined) return {};
  const { name, previous, make, most } = KEYS[options.rotateKey];
  const listed = config.secrets.find((secret) => secret.name === name);
  if (listed)
    throw new DeployError("bad_config", `${config.file ?? "The configuration"} gives ${name} its value`, {
      detail: "The next deployment would set it back",
      outcome: "Nothing was changed",
      fix: `Give the new key there, and the present one as ${previous}`,
    });
  if (config.removed?.includes(previous))
    throw new DeployError("bad_config", `${config.file ?? "The configuration"} removes ${previous}`, {
      detail: "The next deployment would end the key that is replaced now",
      outcome: "Nothing was changed",
      fix: `Take that line out once svc deploy up has removed it: ${previous}`,
    });
  const names = stored.map((secret) => secret.name);
  const isThere = options.rotateKey === "rsa" ? rsaKeyNames(names).length > 0 : names.includes(name);
  if (live === undefined) throw await notDeployed(deployment, { consequence: "there is no key to replace" });
  if (!isThere)
    throw new DeployError("bad_config", `There is no ${name} to replace`, {
      detail: "The platform does not store it",
      outcome: "Nothing was changed",
      fix: "Make keys: svc deploy up --generate-api-key --generate-rsa",
    });
  const finish = (which: string = name) => {
    inform(
      emit,
      `The ${which} that an earlier run has stored is released; run this again to replace it once more`,
    );
    return {};
  };
  const refuseMore = (what: string, oldest: string) => {
    throw new DeployError("bad_config", `${what} is still valid, and would end`, {
      detail: `The service accepts ${most === 1 ? "one former key" : `${most} former keys`}. An earlier run may have replaced the key a moment ago`,
      outcome: "Nothing was changed",
      fix: `Once nobody needs it, remove it, then replace the key: ${oldest}: { remove: true } among the secrets, and svc deploy up`,
    });
  };
  if (options.rotateKey === "rsa" && (!session.readSecret || names.some(isNumberedKey))) {
    // Nobody needs to know the former ones: each stays in its own variable.
    const kept = rsaKeyNames(names).filter((one) => !config.removed?.includes(one));
    const [newest = name] = kept;
    if (isNumberedKey(newest) && live.secretNames?.includes(newest) === false) return finish(newest);
    if (kept.length > most) refuseMore(kept.at(-1)!, kept.at(-1)!);
    return { [nextKeyName(names)]: make() };
  }
  const there = stored.find((secret) => secret.name === name)!;
  const present = (await session.readSecret?.(name)) ?? tools.env[name];
  if (present === undefined)
    throw new DeployError(
      "bad_config",
      `${platform.name} does not show ${name}, which is kept as the former key`,
      {
        outcome: "Nothing was changed",
        fix: `Give it to this command: ${name}=… svc deploy rotate-key …`,
      },
    );
  const known = there.hash ?? lastHashes[name];
  const hash = await hashSecret(present, { target: `${platform.name}/${target.serviceName}`, name });
  const isStored = stored.some((secret) => secret.name === previous);
  const isUnreleased = unreleasedSecrets(live, stored).includes(name);
  // Some platforms show only what runs: a run that was killed has stored another key, and the former one before it.
  if (known !== undefined && known !== hash && isStored && isUnreleased && tools.env[name] === undefined)
    return finish();
  if (known !== undefined && known !== hash)
    throw new DeployError("bad_config", `The platform stores another ${name} than the one that is given`, {
      detail: "An earlier run may have replaced it",
      outcome: "Nothing was changed",
      fix: "svc deploy up releases what is stored",
    });
  const listedKeys = isStored ? keysIn((await session.readSecret?.(previous)) ?? tools.env[previous]) : [];
  const isHalf = listedKeys.includes(present.trim());
  // Those that were removed may still be in the vault, and stay removed.
  const isPassed = live.secretNames?.includes(previous) !== false;
  const isKept = isHalf || (isStored && (isPassed || isUnreleased));
  const kept = isKept ? listedKeys : [];
  if (isKept && kept.length === 0)
    throw new DeployError("bad_config", `${platform.name} does not show ${previous}, which is still valid`, {
      outcome: "Nothing was changed",
      fix: `Give it to this command, beside ${name}: ${previous}=… svc deploy rotate-key …`,
    });
  if (isKept && !isHalf && isUnreleased) return finish();
  const running = await session.readSecret?.(name, live.secrets?.[name]);
  const former = new Set([running, present].flatMap((key) => (key === undefined ? [] : [key.trim()])));
  for (const key of kept) former.add(key);
  if (former.size > most) refuseMore(previous, previous);
  if (tools.env[name] !== undefined)
    warn(
      emit,
      `${name} of this environment is a former key from now on`,
      "Remove it wherever deployments run: they would set it back",
    );
  // In this order they are stored.
  return { [previous]: [...former].join("\n"), [name]: make() };
}

/** Variables of a service with former keys of a kind, which are valid beside the present one. */
export function formerKeys(which: RotatedKey, secretNames: readonly string[]): readonly string[] {
  const { previous } = KEYS[which];
  const numbered = which === "rsa" ? rsaKeyNames(secretNames).slice(1) : [];
  return [...(secretNames.includes(previous) ? [previous] : []), ...numbered];
}

function keysIn(text: string | undefined): string[] {
  const pems = text?.match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----/g);
  return (pems ?? (text ? [text] : [])).map((key) => key.trim());
}
