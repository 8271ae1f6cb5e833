import { DeployError } from "../../../deploy/errors.ts";
import type { Container } from "./containers.ts";
import type { Context } from "./context.ts";
import { lastLines } from "./logs.ts";

export const HEALTH_PATH = "/.well-known/health";

/** Seconds in which a new container has to become healthy. */
const PATIENCE = 90;

/** Runs in the container, which has Node: asks the service until it is healthy, and says why it is not. */
const PROBE = `(async () => {
  const [, url, seconds] = process.argv;
  const end = Date.now() + seconds * 1000;
  for (let said = ""; ; ) {
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(5000) });
      const body = await response.json().catch(() => ({}));
      if (response.status === 200 && body.status === "healthy") process.exit(0);
      said = "answered " + response.status + (body.status === undefined ? "" : " with status " + body.status);
    } catch (error) {
      said = error.cause?.code ?? error.message;
    }
    if (Date.now() > end) {
      console.log(said);
      process.exit(3);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
})()`;

/** Waits until the service in a container responds as healthy; rejects with its last lines if it does not. */
export async function checkInside(context: Context, container: Container, seconds = PATIENCE): Promise<void> {
  const { ssh } = context;
  const url = `http://127.0.0.1:${container.record.port}${HEALTH_PATH}`;
  const exec = 'docker exec "$1" node -e "$2" "$3" "$4"';
  const { code, stdout, stderr } = await ssh.script(exec, [container.id, PROBE, url, String(seconds)]);
  // An image without Node: the engine's own check decides.
  if (code === 0 || /executable file not found|no such file/i.test(stderr)) return;
  const state = await ssh.script(
    'docker inspect --format "{{.State.Status}}, exit code {{.State.ExitCode}}, restarted {{.RestartCount}} times" "$1"',
    [container.id],
  );
  throw new DeployError("unhealthy", "The new container did not become healthy", {
    detail: code === 3 ? stdout.trim() : state.stdout.trim(),
    log: await lastLines(context, container.id),
  });
}

/** Whether the service in a container responds as healthy now. */
export function isHealthy(context: Context, container: Container): Promise<boolean> {
  return checkInside(context, container, 1).then(
    () => true,
    () => false,
  );
}
