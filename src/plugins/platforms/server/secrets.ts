import { DeployError } from "../../../deploy/errors.ts";
import { createSecretStore } from "../../../deploy/secret-store.ts";
import { toTar } from "../../../deploy/tar.ts";
import { type Context, EMPTY, LABEL, namesOf, onServer, WITH_EMPTY } from "./context.ts";

/** Label of the volumes that hold a secret each. */
const SECRET = `${LABEL}.secret`;

/** Where a container sees its secrets: each volume is a folder with one file, named like the variable. */
export const SECRETS_DIR = "/run/secrets";

/**
 * The secrets of a service: each value is a volume, which only Docker's engine and the container can read. It is in no
 * command line, no label and no variable.
 */
export function serverSecrets(context: Context) {
  const { serviceName } = context.target;
  return createSecretStore(context.tools, serviceName, {
    list: () => listSecretVolumes(context),
    async put(ref, value, variable) {
      const bytes = Buffer.from(value);
      const input = toTar([{ path: variable, size: bytes.length, content: () => [bytes] }]);
      const script = `${WITH_EMPTY}
        docker volume create --label "$1" "$2" >/dev/null || exit 1
        id=$(docker create --volume "$2:/secret" ${EMPTY} x) && docker cp - "$id:/secret" >/dev/null; status=$?
        [ -z "$id" ] || docker rm --force "$id" >/dev/null
        [ "$status" = 0 ] || docker volume rm --force "$2" >/dev/null
        exit "$status"`;
      await onServer(
        context,
        `Secret ${variable} was not stored`,
        script,
        [`${SECRET}=${serviceName}`, ref],
        {
          input,
        },
      );
    },
    drop: (ref) =>
      onServer(context, "A secret was not removed", 'docker volume rm --force "$1" >/dev/null', [ref]),
  });
}

/** Names of all volumes with secrets of the service. */
export async function listSecretVolumes(context: Context): Promise<string[]> {
  const label = `${SECRET}=${context.target.serviceName}`;
  const what = "The secrets of the service could not be read";
  const names = await onServer(context, what, 'docker volume ls --quiet --filter "label=$1"', [label]);
  return names.split("\n").filter(Boolean);
}

/** Where a service without such a secret keeps the key that it has made, in its volume. */
const OWN_KEYS: Readonly<Record<string, string>> = {
  SERVICE_API_KEY: "api-key",
  SERVICE_RSA_PRIVATE_KEY: "rsa-private-key.pem",
};

/**
 * The key that a service has made for itself, whether or not it runs; undefined where it has made none. Rejects where that
 * cannot be known: with another key, the service could not read its store.
 */
export async function readOwnKey(context: Context, name: string): Promise<string | undefined> {
  const file = OWN_KEYS[name];
  if (file === undefined) return undefined;
  const script = `${WITH_EMPTY}
    found=$(docker volume ls --quiet --filter "name=^$1\\$") || exit 1
    [ -n "$found" ] || exit 0
    id=$(docker create --volume "$1:/data:ro" ${EMPTY} x) || exit 1
    if said=$(docker cp "$id:/data/$2" - 2>&1 >/dev/null); then
      key=$(docker cp "$id:/data/$2" - | tar -xOf -) && [ -n "$key" ] && printf '%s\\n' "$key"; status=$?
    else case $said in *"ould not find"*|*"o such"*) status=0 ;; *) echo "$said" >&2; status=1 ;; esac; fi
    docker rm --force "$id" >/dev/null
    exit "$status"`;
  const { data } = namesOf(context.target.serviceName);
  const { code, stdout, stderr } = await context.ssh.silent(script, [data, file]);
  if (code === 0) return stdout === "" ? undefined : stdout;
  throw new DeployError(
    "failed",
    `The key that the service has made for itself (${name}) could not be read`,
    {
      detail: stderr.trim(),
      outcome: "Nothing was changed",
      fix: `Give the key to this command: ${name}=…; it is the file ${file} in the volume ${data}`,
    },
  );
}
