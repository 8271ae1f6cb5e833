import { change, type Releasing } from "./change.ts";
import { confinedWords } from "./confined-words.ts";
import { namesOf, SERVICE } from "./context.ts";
import { serveDatabase } from "./database.ts";
import { dockerError } from "./docker-error.ts";
import { imageIn } from "./image.ts";
import { ensureNetwork } from "./proxy.ts";
import { isInNetwork, type ServerRecord } from "./record.ts";

/** The service reads its secrets from files; a command finds them in variables. */
const WITH_SECRETS = `for file in "$SERVICE_SECRETS_DIR"/*/*; do
    [ ! -f "$file" ] || export "\${file##*/}=$(cat "$file")"
  done
  exec /bin/sh -c "$1"`;

/** What \`docker run\` ends with where it has not started the command. */
const NOT_STARTED = 125;
/** What ssh itself ends with when it fails, and what a command that ends so is shown as. */
const SSH_FAILED = 255;

/**
 * Runs a command in the image of a release, confined as the service is, without its files. One that an earlier run has left
 * is ended first: a command never runs twice at the same time.
 */
export async function runInImage(
  at: Releasing,
  record: ServerRecord,
  { command, onLine }: { readonly command: string; readonly onLine: (line: string) => void },
): Promise<number> {
  const { serviceName } = at.target;
  const { command: name, network } = namesOf(serviceName);
  if (isInNetwork(record)) await ensureNetwork(at);
  await serveDatabase(at, record);
  const words = [
    ...["--rm", "--name", name, "--label", `${SERVICE}=${serviceName}`, "--tmpfs", "/data"],
    ...(isInNetwork(record) ? ["--network", network] : []),
    ...["--env", "HOME=/tmp", ...confinedWords(record), "--entrypoint", "/bin/sh"],
    ...[imageIn(at, record.image), "-c", WITH_SECRETS, "sh", command],
  ];
  const script = `docker rm --force "$1" >/dev/null 2>&1; shift
    docker run "$@"; code=$?
    [ $code != ${SSH_FAILED} ] || code=${SSH_FAILED - 1}
    exit $code`;
  const result = await change(at, "command.run", { name }, () =>
    at.ssh.script(script, [name, ...words], { onLine }),
  );
  if (result.code === NOT_STARTED) throw dockerError("The release command was not started", result);
  return result.code;
}
