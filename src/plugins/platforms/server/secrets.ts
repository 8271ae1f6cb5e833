import { createSecretStore } from "../../../deploy/secret-store.ts";
import { toTar } from "../../../deploy/tar.ts";
import { type Context, EMPTY, LABEL, onServer, WITH_EMPTY } from "./context.ts";

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
