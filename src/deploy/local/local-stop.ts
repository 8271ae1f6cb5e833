import { docker, findDocker, pruneImages } from "../docker.ts";
import { DeployError } from "../errors.ts";
import { step } from "../events.ts";
import { guardOpenWork, type OpenWork } from "../open-work.ts";
import type { LocalRun } from "./local-run.ts";
import { dropLocalSecrets } from "./local-secrets.ts";
import { localWork } from "./local-work.ts";

/**
 * Removes what a local test created: containers, network, data, images and test keys. Resolves with what
 * existed. Rejects if the data has open jobs, unless their loss was accepted; `consent` is asked once before
 * anything is removed.
 */
export async function localStop(
  run: LocalRun,
  consent: (work: OpenWork | undefined) => Promise<boolean>,
): Promise<{ readonly removed: readonly string[]; readonly openWork: OpenWork | undefined }> {
  const { tools, emit, project, image, name, serviceName, options } = run;
  await findDocker(tools);
  const openWork = await localWork(run);
  const accepted = options.acceptDataLoss;
  guardOpenWork(openWork, {
    serviceName,
    fate: "its files are deleted when it is removed",
    accepted,
    emit,
  });
  if (!(await consent(openWork)))
    throw new DeployError("declined", "Not removed", { outcome: "Nothing was changed" });
  const filter = ["--filter", `label=com.docker.compose.project=${project}`];
  const removed: string[] = [];
  await step(emit, "stop", async ({ note, skip }) => {
    const remove = async (what: string, list: readonly string[], command: readonly string[]) => {
      const ids = (await docker(tools, list, `The ${what} could not be listed`)).stdout
        .split(/\s+/)
        .filter(Boolean);
      if (ids.length === 0) return;
      await docker(tools, [...command, ...ids], `The ${what} could not be removed`);
      removed.push(what);
    };
    // By label: works without the compose file, and for any version of compose.
    const running = (await docker(tools, ["ps", "--quiet", ...filter], "Containers could not be listed"))
      .stdout;
    const ids = running.split(/\s+/).filter(Boolean);
    if (ids.length > 0) await docker(tools, ["stop", ...ids], "The containers could not be stopped");
    await remove("containers", ["ps", "--all", "--quiet", ...filter], ["rm", "--force", "--volumes"]);
    await remove("network", ["network", "ls", "--quiet", ...filter], ["network", "rm"]);
    await remove("data", ["volume", "ls", "--quiet", ...filter], ["volume", "rm"]);
    await remove("image", ["images", "--quiet", image], ["image", "rm", "--force"]);
    await dropLocalSecrets(run);
    await pruneImages(tools, `agent-control-service.project=${name}`);
    if (removed.length === 0) skip("nothing is running");
    else note(removed.join(", "));
  });
  return { removed, openWork };
}
