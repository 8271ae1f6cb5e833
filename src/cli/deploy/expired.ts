import type { Deployment } from "../../deploy/deployment.ts";
import { down } from "../../deploy/down.ts";
import { isDeclined, isExpired, listEnvironments, type OpenEnvironment } from "../../deploy/environments.ts";
import { DeployError, EXIT } from "../../deploy/errors.ts";
import { expiryOf } from "../../deploy/expiry.ts";
import { tellResult } from "./result.ts";
import type { Shell } from "./session.ts";

/** Removes the environments of a project that are over their time, one after the other, after consent. */
export async function removeExpired(
  shell: Shell,
  deployment: Deployment,
  open: OpenEnvironment,
): Promise<number> {
  shell.needYes("svc deploy down --expired");
  const { tools, target } = deployment;
  const all = await listEnvironments(deployment, open);
  const expired = all.filter((one) => isExpired(one, tools.now())).map(({ environment }) => environment);
  const unread = all.filter(({ problem }) => problem !== undefined);
  shell.progress.clear();
  if (expired.length > 0 && !(await shell.ask(`Remove ${expired.join(", ")} of ${target.name}?`)))
    throw new DeployError("declined", "Nothing was removed: the question was declined");
  const removed: string[] = [];
  const failed: { environment: string; message: string }[] = unread.map(({ environment, problem = "" }) => ({
    environment,
    message: problem,
  }));
  for (const environment of expired) {
    const one = await open(environment);
    try {
      // Somebody may have renewed it since it was read.
      await down(one, async () => isExpired({ expires: expiryOf(await one.session.inspect()) }, tools.now()));
      removed.push(environment);
    } catch (error) {
      if (isDeclined(error)) shell.context.note(`${environment} has been renewed: it was not removed`);
      else failed.push({ environment, message: (error as Error).message });
      shell.signal.throwIfAborted();
    } finally {
      await one.close();
    }
  }
  tellResult(shell, {
    document: { success: failed.length === 0, removed, failed },
    lines: [removed.length === 0 ? "No environment was removed." : `Removed: ${removed.join(", ")}`],
  });
  if (!shell.json)
    for (const { environment, message } of failed) shell.context.note(`${environment}: ${message}`);
  return failed.length === 0 ? EXIT.done : EXIT.failed;
}
