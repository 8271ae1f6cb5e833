import { listContainers, servingOf } from "./containers.ts";
import type { Context } from "./context.ts";
import { dockerError } from "./docker-error.ts";

/** What the serving container wrote; with `follow` it continues until the command ends. */
export async function* serverLogs(
  context: Context,
  { since, follow }: { readonly since: Date; readonly follow: boolean },
): AsyncIterable<string> {
  const serving = servingOf(await listContainers(context));
  if (serving === undefined) return;
  const waiting: string[] = [];
  let wake = () => {};
  let ended = false;
  const script = `exec docker logs ${follow ? "--follow " : ""}--since "$1" "$2" 2>&1`;
  const running = context.ssh
    .script(script, [since.toISOString(), serving.id], {
      onLine: (line) => {
        waiting.push(line);
        wake();
      },
    })
    .finally(() => {
      ended = true;
      wake();
    });
  running.catch(() => undefined);
  for (;;) {
    const line = waiting.shift();
    if (line !== undefined) yield line;
    else if (ended) break;
    else
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
  }
  const result = await running;
  if (result.code !== 0) throw dockerError("The log could not be read", result);
}

/** The last lines of a container, for the report of its failure. Unreadable logs do not count as another failure. */
export async function lastLines({ ssh }: Context, id: string): Promise<string[]> {
  const { code, stdout } = await ssh.script('docker logs --tail 20 "$1" 2>&1', [id]);
  return code === 0 ? stdout.split(/\r?\n/).filter((line) => line.trim() !== "") : [];
}
