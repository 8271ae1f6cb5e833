import type { PlatformSession, StoredSecret } from "./platform.ts";
import type { DeployTools } from "./tools.ts";

/** A platform's storage of values by name. */
export interface ValueStore {
  /** Names that start with the prefix; the list may include others. */
  list(): Promise<readonly string[]>;
  put(name: string, value: string, variable: string): Promise<unknown>;
  drop(name: string): Promise<unknown>;
}

interface Kept extends StoredSecret {
  readonly version: number;
  readonly unfinished: boolean;
}

/**
 * The secrets of a session, stored in any storage of values by name. Every value has its own name, so that a
 * rollback finds the one it ran with: `<prefix>.<variable>.<version>.<hash>`; the newest of each variable
 * counts.
 *
 * @example
 * return { ...createSecretStore(tools, serviceName, { list, put, drop }), inspect, release };
 */
export function createSecretStore(
  tools: DeployTools,
  prefix: string,
  store: ValueStore,
): Pick<PlatformSession, "listSecrets" | "putSecrets" | "dropSecrets"> {
  async function kept(): Promise<Kept[]> {
    const names = await store.list();
    const all = names.flatMap((ref) => {
      const [name, version, hash, ...more] = ref.slice(prefix.length + 1).split(".");
      if (!ref.startsWith(`${prefix}.`) || !name || !version || !hash || more.length > 0) return [];
      const begun = tools.recall(stepOf(name));
      return [{ name, ref, hash, version: Number(version), unfinished: begun?.ref === ref && !begun.kept }];
    });
    return all.sort((a, b) => a.version - b.version);
  }

  return {
    async listSecrets() {
      const all = await kept();
      // The newest counts; a possibly incomplete one only if there is no other.
      const chosen = [...all.filter((one) => one.unfinished), ...all.filter((one) => !one.unfinished)];
      return [...new Map(chosen.map((secret) => [secret.name, toStored(secret)])).values()];
    },
    async putSecrets(values) {
      const there = await kept();
      const refs: Record<string, { name: string; ref: string }> = {};
      for (const [name, { value, hash }] of Object.entries(values)) {
        const version = (there.findLast((one) => one.name === name)?.version ?? 0) + 1;
        const ref = `${prefix}.${name}.${version}.${hash}`;
        await tools.journal({ step: stepOf(name), data: { ref, kept: false } }, async (note) => {
          await store.put(ref, value, name);
          await note({ kept: true });
        });
        refs[name] = { name, ref };
      }
      return refs;
    },
    async dropSecrets(names) {
      for (const { name, ref } of await kept()) {
        if (names.includes(name)) await tools.journal({ step: `secret.drop ${ref}` }, () => store.drop(ref));
      }
    },
  };
}

function stepOf(name: string): string {
  return `secret.put ${name}`;
}

function toStored({ name, ref, hash, unfinished }: Kept): StoredSecret {
  return { name, ref, ...(hash === undefined ? {} : { hash }), ...(unfinished ? { unfinished } : {}) };
}
